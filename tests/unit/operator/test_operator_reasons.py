"""Whoever reads a condition's reason finds it in the documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from nitro_operator.functions.problems import _PARAMETERS

ROOT = Path(__file__).parents[3]
PAGES = ("operations.md", "lambda.md")


def reasons() -> set[str]:
    """Every reason that the operator's source gives to a problem, by itself or from a table of words."""
    found = set()
    for file in (ROOT / "operator" / "nitro_operator").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                found |= _words(node.args[0])
    return found | {reason for _, reason, _ in _PARAMETERS}


def _words(node: ast.AST) -> set[str]:
    words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
    return {word for word in words if isinstance(word, str) and re.fullmatch("[A-Z][A-Za-z]+", word)}


def test_every_reason_is_in_the_documentation() -> None:
    text = "".join((ROOT / "docs" / page).read_text() for page in PAGES)
    found = reasons()
    assert {"HeartbeatLost", "Forbidden", "RoleNotAssumable"} <= found, "the source is read"
    assert {reason for reason in found if not re.search(rf"\b{reason}\b", text)} == set()
