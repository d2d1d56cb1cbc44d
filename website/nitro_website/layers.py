"""Layout of a graph without circles in layers, from top to bottom (Sugiyama, Tagawa and Toda 1981)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import fmean

_SWEEPS = 24


@dataclass(frozen=True)
class Layout:
    """Where everything is.

    Attributes:
        layers: the nodes of each layer from left to right, and with them the places where arrows pass.
        depth: the layer of each of them, from 0.
        x: their middles, in pixels.
        width: of the whole, in pixels.
        paths: each arrow: its source, the places that it passes, its target.
    """

    layers: list[list[str]]
    depth: dict[str, int]
    x: dict[str, float]
    width: float
    paths: list[list[str]]


def layout(
    graph: Mapping[str, Sequence[str]], widths: Mapping[str, float], passing: float, gap: float
) -> Layout:
    """Place a graph: what each node points to, how wide nodes and passing arrows are, and what is between."""
    depth = _depths(graph)
    paths = [_path(source, target, depth) for source, targets in graph.items() for target in targets]
    for path in paths:
        for step, node in enumerate(path):
            depth.setdefault(node, depth[path[0]] + step)
    below: dict[str, list[str]] = {node: [] for node in depth}
    above: dict[str, list[str]] = {node: [] for node in depth}
    for path in paths:
        for high, low in pairwise(path):
            below[high].append(low)
            above[low].append(high)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node, layer in depth.items():
        layers[layer].append(node)
    layers = _ordered(layers, above, below)
    x = _placed(layers, above, below, {node: widths.get(node, passing) for node in depth}, gap)
    left = min(x[node] - widths.get(node, passing) / 2 for node in x)
    right = max(x[node] + widths.get(node, passing) / 2 for node in x)
    return Layout(layers, depth, {node: middle - left for node, middle in x.items()}, right - left, paths)


def _depths(graph: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Each node is one layer below the lowest of those that point to it."""
    depth: dict[str, int] = {}
    above: dict[str, list[str]] = {node: [] for node in graph}
    for source, targets in graph.items():
        for target in targets:
            above[target].append(source)
    for node in TopologicalSorter(above).static_order():
        depth[node] = max((depth[one] + 1 for one in above[node]), default=0)
    return depth


def _path(source: str, target: str, depth: Mapping[str, int]) -> list[str]:
    steps = range(depth[source] + 1, depth[target])
    return [source, *(f"{source} to {target} at {step}" for step in steps), target]


def _ordered(
    layers: list[list[str]], above: Mapping[str, list[str]], below: Mapping[str, list[str]]
) -> list[list[str]]:
    """The layers in an order in which few arrows cross: each node goes to the mean place of its neighbours,
    layer by layer, down and up again; the best order of all sweeps is kept."""
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(_SWEEPS):
        layers = [list(layer) for layer in layers]
        down = sweep % 2 == 0
        near = above if down else below
        for index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            beside = layers[index - 1] if down else layers[index + 1]
            place = {node: number for number, node in enumerate(beside)}
            own = {node: number for number, node in enumerate(layers[index])}
            layers[index].sort(
                key=lambda node, near=near, place=place, own=own: (  # type: ignore[misc]
                    fmean(place[one] for one in near[node]) if near[node] else own[node]
                )
            )
        if (crossings := _crossings(layers, below)) < fewest:
            best, fewest = layers, crossings
    return best


def _crossings(layers: Iterable[Sequence[str]], below: Mapping[str, list[str]]) -> int:
    count = 0
    for high, low in pairwise(layers):
        place = {node: number for number, node in enumerate(low)}
        ends = [place[one] for node in high for one in sorted(below[node], key=place.__getitem__)]
        count += sum(a > b for index, a in enumerate(ends) for b in ends[index + 1 :])
    return count


def _placed(
    layers: Sequence[Sequence[str]],
    above: Mapping[str, list[str]],
    below: Mapping[str, list[str]],
    widths: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """The middles of all nodes: near those of their neighbours, without overlaps."""
    x: dict[str, float] = {}
    for layer in layers:
        x |= _spread(layer, dict.fromkeys(layer, 0.0), widths, gap)
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {node: fmean(x[one] for one in [*above[node], *below[node]] or [node]) for node in layer}
            x |= _spread(layer, wanted, widths, gap)
    return x


def _spread(
    layer: Sequence[str], wanted: Mapping[str, float], widths: Mapping[str, float], gap: float
) -> dict[str, float]:
    """The places nearest to the wanted ones (by least squares) that keep the order and do not overlap.

    Neighbours that would overlap become one block, whose mean offset is the best.
    """
    offset, offsets = 0.0, []
    for number, node in enumerate(layer):
        if number:
            offset += (widths[layer[number - 1]] + widths[node]) / 2 + gap
        offsets.append(offset)
    blocks: list[list[float]] = []
    for node, one in zip(layer, offsets, strict=True):
        blocks.append([wanted[node] - one])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    starts = [fmean(block) for block in blocks for _ in block]
    return {node: start + one for node, start, one in zip(layer, starts, offsets, strict=True)}
