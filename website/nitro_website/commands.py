"""The reference of the commands: their `--help`, as argparse makes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from nitro_learner.cli import COMMANDS, KUBECTL
from nitro_learner.cli.program import command_parser

_TEXT = """\
# Commands

What `--help` prints. `nitro` is installed with the package nitro-learner. `kubectl nitro` has the commands
that need nothing that trains: {kubectl}.
"""


def page() -> str:
    """Markdown: a section for each command, and for each action of a command."""
    shown = ", ".join(f"`{name}`" for name in KUBECTL)
    return "\n".join([_TEXT.format(kubectl=shown), *_sections()])


def _sections() -> Iterator[str]:
    for name, summary in COMMANDS.items():
        parser = command_parser(name)
        yield f"## nitro {name}\n\n{summary[0].upper()}{summary[1:]}.\n\n{_help(parser)}"
        for action, below in _actions(parser).items():
            yield f"### nitro {name} {action}\n\n{_help(below)}"


def _help(parser: argparse.ArgumentParser) -> str:
    return f"```text\n{parser.format_help()}```\n"


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a command's actions, by name: argparse has no public way to them."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found
