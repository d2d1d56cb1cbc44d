"""The map of the packages in docs/development.md, and bounds of their shape."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from nitro_monitoring import package_map

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/development.md"


def test_the_maps_of_the_page_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == package_map.in_page(page), "run `make generate`"


@pytest.mark.parametrize("package", package_map.PACKAGES)
def test_every_room_of_a_package_is_described_on_the_page(package: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for room in package_map.arrows(package):
        assert room.startswith("__") or f"| `{room}` | " in page, room


def test_a_page_without_the_markers_of_a_map_is_refused() -> None:
    page = PAGE.read_text(encoding="utf-8").replace("<!-- map of nitro_api -->", "")
    with pytest.raises(ValueError, match="map of nitro_api"):
        package_map.in_page(page)


def test_an_arrow_that_follows_from_others_is_not_drawn() -> None:
    low: frozenset[str] = frozenset()
    rooms = {"a": frozenset("bcd"), "b": frozenset("c"), "c": low, "d": low}
    assert package_map.without_shortcuts(rooms) == {**rooms, "a": frozenset("bd")}


def test_the_learner_has_few_rooms_and_few_imports_between_them() -> None:
    rooms = package_map.arrows("nitro_learner")
    assert len(rooms) <= 22
    assert sum(len(imported) for imported in rooms.values()) <= 84


@pytest.mark.parametrize("package", package_map.PACKAGES)
def test_no_package_has_a_circle_of_rooms_or_of_modules(package: str) -> None:
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


def test_no_module_is_longer_than_450_lines() -> None:
    long = [
        str(path.relative_to(ROOT / folder))
        for package, folder in package_map.PACKAGES.items()
        for path in (ROOT / folder / package).rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 450
    ]
    assert long == []
