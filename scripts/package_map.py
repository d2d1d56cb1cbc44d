"""The map of the packages in docs/development.md: `python scripts/package_map.py PAGE`.

A part is a module or a folder directly in a package. The map is made from the import graph, the layers in
pyproject.toml, and the first sentence of each part's docstring.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

PACKAGES = {
    "nitro_learner": "learner-image",
    "nitro_experiments": "experiments",
    "nitro_operator": "operator",
    "nitro_api": "crds",
    "nitro_actor": "actor-image",
}
"""Package -> its folder in the repository."""
_ROOT = Path(__file__).parents[1]

Arrows = Mapping[str, frozenset[str]]
"""Part -> the parts that it imports."""


@cache
def import_graph() -> grimp.ImportGraph:
    """All imports between the packages, without those for type checking only."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)


def arrows(package: str) -> Arrows:
    """The parts of a package and the imports between them."""
    graph = import_graph()
    parts: dict[str, set[str]] = {_part(module): set() for module in graph.find_children(package)}
    for module in sorted(graph.find_descendants(package)):
        for imported in graph.find_modules_directly_imported_by(module):
            if imported.startswith(f"{package}.") and _part(imported) != _part(module):
                parts[_part(module)].add(_part(imported))
    return {part: frozenset(imported) for part, imported in sorted(parts.items())}


def in_page(page: str) -> str:
    """The page with new maps, each between the two comments of its package."""
    for package in PACKAGES:
        begin, end = f"<!-- map of {package} -->\n", "<!-- end of map -->\n"
        before, found, after = page.partition(begin)
        _, found_end, after = after.partition(end)
        if not (found and found_end):
            raise ValueError(f"the page has no lines {begin!r} and {end!r}")
        page = f"{before}{begin}\n{render(package)}\n{end}{after}"
    return page


def render(package: str) -> str:
    """A Mermaid diagram and a table of the parts, from the top to the bottom."""
    drawn = without_shortcuts(_without_programs(arrows(package)))
    order = _from_top_to_bottom(package, drawn)
    lines = [
        f"    {part} --> {' & '.join(sorted(drawn[part], key=order.index))}" for part in order if drawn[part]
    ]
    alone = [
        f"    {part}" for part in order if not drawn[part] and not any(part in low for low in drawn.values())
    ]
    rows = [f"| `{part}` | {_purpose(package, part)} |" for part in order]
    picture = ["```mermaid", "flowchart TD", *lines, *alone, "```"]
    return "\n".join([*picture, "", "| part | what it holds |", "|---|---|", *rows]) + "\n"


def without_shortcuts(parts: Arrows) -> Arrows:
    """The arrows that do not follow from others: `a -> c` is left out where `a -> b -> c` exists."""

    @cache
    def below(part: str) -> frozenset[str]:
        return parts[part].union(*(below(low) for low in parts[part]))

    return {
        part: frozenset(low for low in lows if not any(low in below(other) for other in lows))
        for part, lows in parts.items()
    }


def _without_programs(parts: Arrows) -> Arrows:
    return {part: lows for part, lows in parts.items() if not part.startswith("__")}


def _part(module: str) -> str:
    return module.split(".")[1]


def _from_top_to_bottom(package: str, parts: Arrows) -> list[str]:
    """The order of the package's layers contract; without a contract, importers before what they import."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    for contract in contracts:
        if contract.get("containers") == [package]:
            listed = [part.strip() for layer in contract["layers"] for part in layer.split("|")]
            return [part for part in listed if part in parts]
    return _sorted_by_imports(parts)


def _sorted_by_imports(parts: Arrows) -> list[str]:
    sorter = TopologicalSorter(parts)
    sorter.prepare()
    floors: list[Iterable[str]] = []
    while sorter.is_active():
        floors.append(sorted(sorter.get_ready()))
        sorter.done(*floors[-1])
    return [part for floor in reversed(floors) for part in floor]


def _purpose(package: str, part: str) -> str:
    """The first sentence of the part's docstring."""
    source = _ROOT / PACKAGES[package] / package / part
    path = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(docstring.split()), maxsplit=1)[0].rstrip(".")


def main(page: Path) -> None:
    """Write the page's maps again."""
    unfinished = page.with_suffix(".new")
    unfinished.write_text(in_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    unfinished.rename(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
