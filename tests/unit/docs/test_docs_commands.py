"""Commands of the documentation: programs, options, fields of the job, and the files that they name exist."""

import argparse
import re
from functools import cache
from pathlib import Path

import pytest

from docs_support import PAGES, ROOT, commands, parse
from nitro_api import JobInvalid, load_job
from nitro_learner.cli.commands import KUBECTL
from nitro_learner.cli.program import command_parser, installed

COMMANDS = installed()
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))

FOLDERS = (
    "examples/",
    "experiments/",
    "scripts/",
    "tests/",
    "charts/",
    "docs/",
    "actor-image/",
    "learner-image/",
)

OTHERS = {"--take-ownership", "--force-conflicts", "--set-string", "--provenance", "--peer"}
"""Options in sentences that belong to helm, docker and a benchmark."""


def mistakes(text: str) -> list[str]:
    """What a page's commands say that does not exist."""
    page = parse(text)
    found = []
    for block in page.blocks:
        for words in commands(block):
            found += _mistakes(words)
    for span in page.spans:
        for words in commands(span):
            if len(words) == 2 and words[0] == "nitro" and words[1] in COMMANDS:
                continue  # a command's name without its arguments
            found += _mistakes(words)
            if words and words[0].startswith("--") and words[0].split("=")[0] not in _options() | OTHERS:
                found.append(f"{words[0]}: no option of nitro")
    return found


def _mistakes(words: list[str]) -> list[str]:
    while words and (words[0] == "-" or re.match(r"[A-Z_]+=", words[0])):
        words = words[1:]
    if not words:
        return []
    found = [f"{word}: no such file" for word in words if word.startswith(FOLDERS) and not _exists(word)]
    program, rest = words[0], words[1:]
    if program == "make":
        found += [f"make {word}: no such target" for word in rest if _is_target(word) and word not in TARGETS]
    elif program == "nitro" or program.endswith("/bin/nitro"):
        found += _nitro(rest, list(COMMANDS))
    elif program == "kubectl" and rest[:1] == ["nitro"]:
        found += _nitro(rest[1:], list(KUBECTL))
    return found


def _exists(word: str) -> bool:
    """Whether there is such a file, and in it the test that stands after `::`."""
    pattern, *tests = word.rstrip("/").split("::")
    files = list(ROOT.glob(pattern))
    return bool(files) and (not tests or f"def {tests[-1]}(" in files[0].read_text())


def _is_target(word: str) -> bool:
    return "=" not in word and "/" not in word


def _nitro(words: list[str], known: list[str]) -> list[str]:
    if words in ([], ["--help"], ["--version"]):
        return []
    if words[0] not in known:
        return [f"nitro {' '.join(words)}: no such command"]
    parser = _parser(words[0])
    try:
        arguments = parser.parse_args(words[1:])
    except (argparse.ArgumentError, SystemExit) as error:
        return [f"nitro {' '.join(words)}: {error}"]
    job = getattr(arguments, "job", None)
    job = job[0] if isinstance(job, list) else job
    if not isinstance(job, Path) or not (ROOT / job).exists():
        return []
    placeholder = re.compile(r"=([A-Z]+|…)$")
    try:
        load_job(
            ROOT / job, [one for one in getattr(arguments, "overrides", ()) if not placeholder.search(one)]
        )
    except JobInvalid as error:
        return [f"nitro {' '.join(words)}: {error}"]
    return []


def _parser(command: str) -> argparse.ArgumentParser:
    parser = command_parser(command)
    parser.allow_abbrev = False
    return parser


@cache
def _options() -> set[str]:
    """The options of all commands and of their actions."""
    parsers = [_parser(command) for command in COMMANDS]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
    return {option for parser in parsers for option in parser._option_string_actions}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_exists(path: Path) -> None:
    assert mistakes(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("nitro tarin examples/hopper.yaml", "no such command"),
        ("kubectl nitro train examples/hopper.yaml", "no such command"),
        ("nitro train examples/missing.yaml", "no such file"),
        ("nitro train examples/hopper.yaml --sed spec.seed=1", "nitro train examples/hopper.yaml --sed"),
        ("nitro train examples/hopper.yaml --set spec.sed=1", "spec.sed"),
        ("nitro validate | make tset", "no such target"),
        ("tests/unit/docs/test_docs_commands.py::test_it", "no such file"),
    ],
)
def test_a_wrong_command_is_found(line: str, mistake: str) -> None:
    assert mistake in mistakes(f"Do this:\n\n    {line}   # as said\n")[-1]
    assert mistake in mistakes(f"Do `{line}` now.")[-1]


def test_a_wrong_option_in_a_sentence_is_found() -> None:
    assert mistakes("It takes `--every`, `--json` and `--take-ownership`.") == ["--every: no option of nitro"]
