"""Layouts of graphs in layers: nothing overlaps, arrows lead down, and few of them cross."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nitro_website.layers import layout

GAP, PASSING = 10.0, 4.0
GRAPHS = {
    "one": {"a": []},
    "chain with a shortcut": {"a": ["b", "c"], "b": ["c"], "c": []},
    "diamond": {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []},
    "two tops": {"a": ["c", "d"], "b": ["d", "e"], "c": ["f"], "d": ["f"], "e": ["f"], "f": []},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_boxes_do_not_overlap_and_arrows_lead_down(name: str) -> None:
    graph = GRAPHS[name]
    widths = {node: 20.0 + 10 * number for number, node in enumerate(graph)}
    placed = layout(graph, widths, PASSING, GAP)
    assert {node for layer in placed.layers for node in layer if node in graph} == set(graph)
    for layer in placed.layers:
        for left, right in pairwise(layer):
            needed = (widths.get(left, PASSING) + widths.get(right, PASSING)) / 2 + GAP
            assert placed.x[right] - placed.x[left] >= needed - 1e-9
    for path in placed.paths:
        assert [placed.depth[node] for node in path] == list(
            range(placed.depth[path[0]], placed.depth[path[-1]] + 1)
        )
    assert min(placed.x[node] - widths[node] / 2 for node in graph) >= -1e-9
    assert max(placed.x[node] + widths[node] / 2 for node in graph) <= placed.width + 1e-9


def test_arrows_that_need_not_cross_do_not() -> None:
    graph = {"top": ["a", "b", "c"], "a": ["z"], "b": ["y"], "c": ["x"], "x": [], "y": [], "z": []}
    placed = layout(graph, dict.fromkeys(graph, 20.0), PASSING, GAP)
    assert sorted("abc", key=placed.x.__getitem__) == [
        {"z": "a", "y": "b", "x": "c"}[node] for node in sorted("xyz", key=placed.x.__getitem__)
    ]


def test_a_node_stands_between_its_neighbours() -> None:
    placed = layout({"a": ["b", "c"], "b": [], "c": []}, dict.fromkeys("abc", 20.0), PASSING, GAP)
    assert placed.x["a"] == pytest.approx((placed.x["b"] + placed.x["c"]) / 2)
