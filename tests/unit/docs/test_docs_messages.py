"""The messages that docs/troubleshooting.md explains are those that the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from docs_support import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
PACKAGES = (
    "crds/nitro_api",
    "actor-image/nitro_actor",
    "learner-image/nitro_learner",
    "rllib/nitro_rllib",
    "experiments/nitro_experiments",
    "operator/nitro_operator",
)
GAP = "…"


def quoted() -> list[str]:
    """The messages of the page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def parts(message: str) -> list[str]:
    """What of a message is the same each time."""
    return [part for part in message.split(GAP) if part.strip(" :;.?")]


@cache
def texts() -> tuple[str, ...]:
    """Every text in the code, with a gap where something is filled in."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(text for path in files for text in _texts(ast.parse(path.read_text(encoding="utf-8"))))


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else GAP for one in node.values)


def said(message: str) -> bool:
    """Whether a text of the code has all parts of the message, in their order."""
    pattern = re.compile(".*".join(map(re.escape, parts(message))), re.DOTALL)
    return any(pattern.search(text) for text in texts())


def test_the_page_explains_messages() -> None:
    assert len(quoted()) > 40
    assert len(set(quoted())) == len(quoted())
    assert [message for message in quoted() if len("".join(parts(message))) < 8] == []


@pytest.mark.parametrize("message", quoted())
def test_the_code_says_it(message: str) -> None:
    assert said(message)


@pytest.mark.parametrize(
    "message",
    [
        "the image … of … cannot be drawn",
        "cannot be pulled the image … of …",
        "no checkpoint in it! Name a run",
    ],
)
def test_what_the_code_does_not_say_is_found(message: str) -> None:
    assert not said(message)
