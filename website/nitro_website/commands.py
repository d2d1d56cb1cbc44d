"""The reference of the commands: their `--help`, as argparse makes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from nitro_learner.cli.commands import EXPERIMENTS, KUBECTL
from nitro_learner.cli.program import command_parser, installed

_TEXT = """\
# Commands

What `--help` prints. `nitro` is installed with the package nitro-learner. The package nitro-experiments adds
{experiments}.
`kubectl nitro` has the commands that need nothing that trains: {kubectl}.
"""


def page() -> str:
    """Markdown: a section for each command, and for each action of a command."""
    text = _TEXT.format(experiments=_listed(EXPERIMENTS), kubectl=_listed(KUBECTL))
    return "\n".join([text, *_sections()])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sections() -> Iterator[str]:
    for name, summary in installed().items():
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
