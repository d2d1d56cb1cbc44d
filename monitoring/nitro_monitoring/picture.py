"""A dashboard as a picture for the documentation: every panel plots the result of its own queries.

It replaces Grafana only here: it knows just the panel options that this project's dashboards use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator
from matplotlib.transforms import Bbox

from nitro_monitoring.queries import filled

Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""A PromQL range query -> its matrix, as Prometheus' API has it."""
Series = tuple[str, np.ndarray, np.ndarray]
"""Legend, Unix times in seconds f64 [n], values f64 [n]."""

_CELL_INCHES = (0.42, 0.34)
"""Small cells make the type large beside them."""
_PALETTE = ("#3274d9", "#e0752d", "#56a64b", "#a352cc", "#c4162a", "#1f9e9e", "#8f6b00", "#7a7a7a")
_INK, _FAINT = "#24292e", "#d8dce0"
_STATES = {"green": "#2f7d32", "yellow": "#b07d00", "red": "#c4162a"}
"""Colours of thresholds, dark enough for numbers on white."""
_TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
_TICKS = 4
_TIME_INCHES = 0.6
"""Width of a time below the axis."""
_LEGEND_INCHES = 0.85
_LEGENDS = 6
"""More of them are left out."""
_BYTES = ("B", "KiB", "MiB", "GiB")


def draw(
    dashboard: Mapping[str, Any],
    ask: Ask,
    variables: Mapping[str, str],
    path: Path,
    caption: str,
    rows: Sequence[str] = (),
) -> None:
    """Draw panels into a PNG.

    Args:
        caption: says what data it shows.
        rows: the titles of the rows that are drawn; all where there is none.
    """
    panels = _of_rows(dashboard["panels"], rows)
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width_inches, height_inches = 24 * _CELL_INCHES[0], (height + 2) * _CELL_INCHES[1]
    figure = Figure(figsize=(width_inches, height_inches), facecolor="white")
    figure.text(0.01, 1 - 0.6 * _CELL_INCHES[1] / height_inches, dashboard["title"], size=15, weight="bold")
    figure.text(0.01, 1 - 1.4 * _CELL_INCHES[1] / height_inches, caption, size=9, color="#666666")
    for panel in panels:
        place = panel["gridPos"]
        top = 1 - (place["y"] + 2) / (height + 2)
        if panel["type"] == "row":
            figure.text(0.01, top - 0.75 / (height + 2), panel["title"], size=12, weight="bold", color=_INK)
            continue
        left, wide = place["x"] / 24 + 0.045, place["w"] / 24 - 0.06
        tall = place["h"] / (height + 2)
        axes = figure.add_axes((left, top - tall + 1.6 / (height + 2), wide, tall - 2.6 / (height + 2)))
        axes.set_title(panel["title"], loc="left", size=9.5, color=_INK, pad=14)
        if panel["type"] == "table":
            _table(axes, panel, ask, variables)
        else:
            _DRAW[panel["type"]](axes, panel, _series(panel, ask, variables))
    figure.savefig(path, dpi=110)


def _of_rows(panels: Sequence[Mapping[str, Any]], rows: Sequence[str]) -> list[Mapping[str, Any]]:
    """The panels of these rows, moved up to where rows are left out.

    Raises:
        ValueError: the dashboard has no such row.
    """
    titles = [panel["title"] for panel in panels if panel["type"] == "row"]
    if missing := [row for row in rows if row not in titles]:
        raise ValueError(f"no row {', '.join(missing)}; there are {', '.join(titles)}")
    kept: list[Mapping[str, Any]] = []
    shown, begin, up, bottom = True, 0, 0, 0
    for panel in panels:
        place = panel["gridPos"]
        if panel["type"] == "row":
            shown = not rows or panel["title"] in rows
            begin, up = place["y"], place["y"] - bottom
        if shown and place["y"] >= begin:
            kept.append({**panel, "gridPos": {**place, "y": place["y"] - up}})
            bottom = max(bottom, place["y"] - up + place["h"])
    return kept


def _series(panel: Mapping[str, Any], ask: Ask, variables: Mapping[str, str]) -> list[Series]:
    found = []
    for target in panel["targets"]:
        for one in ask(filled(target["expr"], variables)):
            times, values = np.array(one["values"], dtype=float).T
            legend = re.sub(r"{{(\w+)}}", r"{\1}", target.get("legendFormat", ""))
            found.append((legend.format(**one["metric"]), times, values))
    return found


def _graph(axes: Axes, panel: Mapping[str, Any], series: list[Series]) -> None:
    options = panel["fieldConfig"]["defaults"]
    if not series:
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set_color(_FAINT)
        axes.text(0.5, 0.5, "no data", size=9, ha="center", color="#888888", transform=axes.transAxes)
        return
    styles = {
        override["matcher"]["options"]: {each["id"]: each["value"] for each in override["properties"]}
        for override in panel["fieldConfig"].get("overrides", [])
    }
    whole = options.get("decimals") == 0
    if options["custom"].get("stacking", {}).get("mode") == "normal":
        apart = [one for one in series if "custom.stacking" in styles.get(one[0], {})]
        _stack(axes, [one for one in series if one not in apart], whole=whole)
        for (legend, times, values), colour in zip(apart, (_INK, _STATES["red"]), strict=False):
            axes.plot(times, values, color=colour, linewidth=1.6, label=legend)
    else:
        _lines(axes, series, styles, whole=whole)
    for step in options["thresholds"]["steps"][1:]:
        axes.axhline(step["value"], color=step["color"], linestyle=":", linewidth=1)
    if options.get("min") is not None:
        axes.set_ylim(bottom=options["min"])
    _scales(axes, series, options["unit"], whole=whole)
    axes.tick_params(labelsize=8, colors="#555555", length=2)
    axes.grid(color=_FAINT, linewidth=0.5)
    for side in axes.spines.values():
        side.set_color(_FAINT)
    legends = len(axes.get_legend_handles_labels()[1])
    if 0 < legends <= _LEGENDS:
        columns = min(legends, max(2, int(_width(axes) / _LEGEND_INCHES)))
        if columns < legends:  # the title goes above the legend's rows
            rows = -(-legends // columns)
            axes.set_title(axes.get_title(loc="left"), loc="left", size=9.5, color=_INK, pad=4 + 10 * rows)
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 0.99),
            borderaxespad=0,
            fontsize=7.5,
            frameon=False,
            ncols=columns,
            handlelength=1,
            columnspacing=1,
        )


def _width(axes: Axes) -> float:
    """Unit: inches."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return float(axes.get_position().width * figure.get_figwidth())


def _scales(axes: Axes, series: list[Series], unit: str, *, whole: bool) -> None:
    """Ticks at round numbers of the unit, of counts at whole numbers, and at round times."""
    bottom, top = axes.get_ylim()
    if not any(np.nan_to_num(values).any() for *_, values in series):
        axes.set_ylim(0, top := max(top, 1.0))  # only zeros: a scale of small fractions would be of no use
    formatter = FuncFormatter(lambda value, _: _worded(value, unit))
    if unit == "bytes":
        power = _power(top)
        one = 1024**power
        formatter = FuncFormatter(lambda value, _: f"{value / one:.3g} {_BYTES[power]}")
        ticks = MaxNLocator(_TICKS).tick_values(bottom / one, top / one) * one
        axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if bottom <= tick <= top]))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(_TICKS, integer=whole))
    axes.yaxis.set_major_formatter(formatter)
    begin, end = axes.get_xlim()
    most = min(_TICKS + 1, int(_width(axes) / _TIME_INCHES))
    step = next((step for step in _TICK_SECONDS if (end - begin) / step <= most), _TICK_SECONDS[-1])
    pattern = "%H:%M" if step % 60 == 0 else "%H:%M:%S"
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda time, _: datetime.fromtimestamp(time, UTC).strftime(pattern))
    )


def _lines(
    axes: Axes, series: list[Series], styles: Mapping[str, Mapping[str, Any]], *, whole: bool = False
) -> None:
    """A line for each series; counts are steps."""
    drawn = "steps-post" if whole else "default"
    by_name = {legend: (times, values) for legend, times, values in series}
    colour = iter(_PALETTE * 4)
    for legend, times, values in series:
        style = styles.get(legend, {})
        if style.get("custom.lineWidth") == 0:
            below = by_name.get(style.get("custom.fillBelowTo", ""))
            if below is not None:
                axes.fill_between(times, values, below[1], color=_PALETTE[0], alpha=0.18, linewidth=0)
            continue
        dashed = "--" if "custom.lineStyle" in style else "-"
        axes.plot(times, values, dashed, color=next(colour), linewidth=1.3, label=legend, drawstyle=drawn)


def _stack(axes: Axes, series: list[Series], *, whole: bool) -> None:
    """Stacked areas on a common grid of times; a series without a value adds nothing."""
    shown = [one for one in series if np.nansum(np.abs(one[2])) > 0]
    if not shown:
        _lines(axes, series, {})
        return
    grid = np.unique(np.concatenate([times for _, times, _ in shown]))
    heights = []
    for _, times, values in shown:
        row = np.zeros(len(grid))
        row[np.searchsorted(grid, times)] = np.nan_to_num(values)
        heights.append(row)
    colours = [_PALETTE[position % len(_PALETTE)] for position in range(len(shown))]
    step = "post" if whole else None
    axes.stackplot(grid, heights, labels=[one[0] for one in shown], colors=colours, alpha=0.65, step=step)


def _number(axes: Axes, panel: Mapping[str, Any], series: list[Series]) -> None:
    axes.set_axis_off()
    unit, state = panel["fieldConfig"]["defaults"]["unit"], "green"
    if panel["options"].get("textMode") == "name":
        newest = max(series, key=lambda one: one[1][-1], default=("-", None, None))
        text = newest[0]
    else:
        text = " / ".join(_worded(values[-1], unit) for _, _, values in series) or "-"
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        value = series[0][2][-1] if series else math.nan
        state = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    axes.text(0.5, 0.4, text, size=17, ha="center", va="center", color=_STATES.get(state, _INK))


def _table(axes: Axes, panel: Mapping[str, Any], ask: Ask, variables: Mapping[str, str]) -> None:
    """One row for each job, its newest values joined as Grafana's merge does."""
    axes.set_axis_off()
    options = panel["transformations"][-1]["options"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for target in panel["targets"]:
        column = options["renameByName"].get(f"Value #{target['refId']}")
        found = ask(filled(target["expr"], variables))
        newest = max((one["values"][-1][0] for one in found), default=0)
        for one in found:
            if one["values"][-1][0] < newest:
                continue  # the series has ended: the job left the phase or was deleted
            labels = one["metric"]
            row = rows.setdefault((labels["namespace"], labels["job_name"]), {})
            if column is None:
                row |= {"namespace": labels["namespace"], "job": labels["job_name"], "phase": labels["phase"]}
            else:
                unit = "currencyUSD" if column == "cost" else "none"
                row[column] = _worded(float(one["values"][-1][1]), unit)
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    if rows:
        cells = [[row.get(name, "") for name in columns] for row in rows.values()]
        tall = min(1.0, 0.15 * (len(rows) + 1))
        place = Bbox.from_bounds(0, 1 - tall, 1, tall)
        table = axes.table(
            cells, colLabels=columns, bbox=place, cellLoc="left", colLoc="left", edges="horizontal"
        )
        table.auto_set_font_size(False)
        table.set_fontsize(8.5)


_DRAW = {"timeseries": _graph, "stat": _number}


def _power(value: float) -> int:
    """The largest power of 1024 below a number of bytes."""
    return min(len(_BYTES) - 1, int(math.log(max(abs(value), 1), 1024)))


def _worded(value: float, unit: str) -> str:
    """A number in the form that Grafana gives it in that unit."""
    if not math.isfinite(value):
        return "-"
    if unit == "bytes":
        power = _power(value)
        return f"{value / 1024**power:.3g} {_BYTES[power]}"
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "currencyUSD":
        return f"${value:.3g}"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{1000 * value:.3g} ms"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text + {"s": " s", "ops": "/s", "reqps": "/s"}.get(unit, "")
