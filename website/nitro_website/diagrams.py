"""Mermaid's flowcharts as pictures: GitHub draws them itself, the site would have to load a program for it.

Only what scripts/package_map.py writes is understood: `flowchart TD`, `a --> b & c`, and a name alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from nitro_website.layers import Layout, layout

_BLOCK = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BOX, _STEP, _MARGIN = 26, 58, 8
"""Height of a box, distance between the tops of two layers, and the edge around the picture, in pixels."""
_LETTER, _PADDING, _GAP = 7.4, 20, 16
"""Width of a letter, of a box beside its text, and between two boxes, in pixels."""
_DUMMY = 4
"""Width that an arrow takes where it passes a layer, in pixels."""


def with_pictures(markdown: str) -> str:
    """The page with an SVG picture, inside its HTML, in place of each flowchart."""
    return _BLOCK.sub(lambda found: f"\n{svg(arrows(found[1]))}\n", markdown)


def arrows(text: str) -> dict[str, list[str]]:
    """What each node of a flowchart points to."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        source, _, targets = line.partition("-->")
        found.setdefault(source.strip(), [])
        for target in filter(None, map(str.strip, targets.split("&"))):
            found[source.strip()].append(target)
            found.setdefault(target, [])
    return found


def svg(graph: Mapping[str, Sequence[str]]) -> str:
    """One line of HTML with the picture. Arrows lead down."""
    placed = layout(graph, {node: len(node) * _LETTER + _PADDING for node in graph}, _DUMMY, _GAP)
    width = placed.width + 2 * _MARGIN
    height = (len(placed.layers) - 1) * _STEP + _BOX + 2 * _MARGIN
    parts = [_line(placed, path) for path in placed.paths]
    for depth, layer in enumerate(placed.layers):
        parts += [_box(node, placed, depth) for node in layer if node in graph]
    return (
        f'<div class="flowchart"><svg viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img" '
        f'aria-label="{escape(_said(graph))}"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
        f'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(parts)}</svg></div>"
    )


def _said(graph: Mapping[str, Sequence[str]]) -> str:
    """The picture in words."""
    return "; ".join(f"{node} imports {', '.join(below)}" for node, below in graph.items() if below)


def _box(node: str, placed: Layout, depth: int) -> str:
    width = len(node) * _LETTER + _PADDING
    x, y = placed.x[node] + _MARGIN, depth * _STEP + _MARGIN
    return (
        f'<g><rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" rx="5"/>'
        f'<text x="{x:.1f}" y="{y + 17}">{escape(node)}</text></g>'
    )


def _line(placed: Layout, path: Sequence[str]) -> str:
    """A curve through the places of a path, vertical where it leaves and arrives."""
    points = [(placed.x[node] + _MARGIN, placed.depth[node] * _STEP + _MARGIN) for node in path]
    x, top = points[0]
    y = float(top + _BOX)
    drawn = f"M{x:.1f} {y:.1f}"
    for number, (to_x, to_top) in enumerate(points[1:], start=1):
        to_y = to_top + (_BOX / 2 if number < len(points) - 1 else 0.0)
        middle = (y + to_y) / 2
        drawn += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return f'<path class="arrow" d="{drawn}" marker-end="url(#arrow)"/>'
