"""The map of the packages in docs/development.md, and bounds of their shape."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import package_map

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/development.md"


def test_the_maps_of_the_page_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == package_map.in_page(page), "run `make generate`"


@pytest.mark.parametrize("package", package_map.PACKAGES)
def test_every_part_of_a_package_is_described_on_the_page(package: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for part in package_map.arrows(package):
        assert part.startswith("__") or f"| `{part}` | " in page, part


def test_a_page_without_the_markers_of_a_map_is_refused() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("<!-- map of nitro_api -->", "")
    with pytest.raises(ValueError, match="map of nitro_api"):
        package_map.in_page(page)


def test_an_arrow_that_follows_from_others_is_not_drawn() -> None:
    low: frozenset[str] = frozenset()
    parts = {"a": frozenset("bcd"), "b": frozenset("c"), "c": low, "d": low}
    assert package_map.without_shortcuts(parts) == {**parts, "a": frozenset("bd")}


def test_the_learner_has_few_parts_and_few_imports_between_them() -> None:
    parts = package_map.arrows("nitro_learner")
    assert len(parts) <= 17  # and `__init__`
    assert sum(len(imported) for imported in parts.values()) <= 60


@pytest.mark.parametrize("package", package_map.PACKAGES)
def test_no_package_has_a_circle_of_parts_or_of_modules(package: str) -> None:
    graph = package_map.import_graph()
    modules = {
        module: graph.find_modules_directly_imported_by(module) for module in graph.find_descendants(package)
    }
    for imports in (package_map.arrows(package), modules):
        TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("package", package_map.PACKAGES)
def test_no_two_classes_of_a_package_have_one_name(package: str) -> None:
    paths = sorted((ROOT / package_map.PACKAGES[package] / package).rglob("*.py"))
    names = Counter(
        node.name
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


FUNCTION_LINES, CLASS_LINES = 80, 300


def test_no_function_and_no_class_is_too_long_to_be_read_at_once() -> None:
    """Their docstrings do not count. Modules have no bound: they hold what is read together."""
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} has {lines} lines"
        for package, folder in package_map.PACKAGES.items()
        for path in (ROOT / folder / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := _lines_above_its_bound(node))
    ]
    assert long == []


def _lines_above_its_bound(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of what is too long; 0 for all else."""
    most = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
    body = node.body if ast.get_docstring(node) is None else node.body[1:]
    lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
    return lines if lines > most else 0
