"""Panels, rows and variables as both dashboards use them, on top of Grafana's own SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "nitro"
WIDTH = 24
HEIGHT = 8
STAT_HEIGHT = 4
WINDOW = "[$window]"
"""The range of rates: rounds may be longer than a few scrapes."""

GREEN, YELLOW, RED, GREY = "green", "yellow", "red", "text"
Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from this value on (None = the least) in this colour."""
PLAIN: Steps = ((None, GREEN),)
Panel = timeseries.Panel | stat.Panel | table.Panel
_P = TypeVar("_P", timeseries.Panel, stat.Panel, table.Panel)


@dataclass(frozen=True)
class Query:
    """A PromQL expression and the legend of its series."""

    expr: str
    legend: str


def graph(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = WIDTH // 2,
    steps: Steps = PLAIN,
    stacked: bool = False,
    whole: bool = False,
    least: float | None = 0,
) -> timeseries.Panel:
    """Lines over time.

    Args:
        unit: of the values, as Grafana names it.
        width: of 24 columns.
        steps: thresholds; more than one are drawn as lines.
        stacked: areas on top of each other.
        whole: the values are counts; the axis has no parts of one.
        least: lowest value of the axis; None = that of the data.
    """
    style = common.GraphTresholdsStyleMode.DASHED if len(steps) > 1 else common.GraphTresholdsStyleMode.OFF
    panel = _common(timeseries.Panel(), title, description, unit, queries, width, HEIGHT, steps)
    panel.line_width(1).fill_opacity(40 if stacked else 8).show_points(common.VisibilityMode.NEVER)
    panel.span_nulls(60_000.0)  # a missed scrape or two is no gap; a pod that is away is
    panel.thresholds_style(common_builders.GraphThresholdsStyleConfig().mode(style))
    panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    panel.legend(
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull"])
    )
    if whole:
        panel.decimals(0)
        panel.line_interpolation(common.LineInterpolation.STEP_AFTER)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    return panel if least is None else panel.min(least)


def band(panel: timeseries.Panel, lower: str, upper: str) -> timeseries.Panel:
    """Fill the space between two series, named by their legends, and hide their lines."""
    line = dashboard.DynamicConfigValue("custom.lineWidth", 0)
    hidden = dashboard.DynamicConfigValue("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False})
    fill = dashboard.DynamicConfigValue("custom.fillBelowTo", lower)
    opacity = dashboard.DynamicConfigValue("custom.fillOpacity", 15)
    none = dashboard.DynamicConfigValue("custom.fillOpacity", 0)
    panel.override_by_name(lower, [line, none, hidden])
    return panel.override_by_name(upper, [line, opacity, hidden, fill])


def dashed(panel: timeseries.Panel, name: str) -> timeseries.Panel:
    """Draw a series, named by its legend, as the target line of the others."""
    style = dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]})
    return panel.override_by_name(name, [style, dashboard.DynamicConfigValue("custom.fillOpacity", 0)])


def above(panel: timeseries.Panel, name: str) -> timeseries.Panel:
    """Draw a series, named by its legend, as a line over the stacked areas of the others."""
    apart = dashboard.DynamicConfigValue("custom.stacking", {"mode": "none", "group": "A"})
    bare = dashboard.DynamicConfigValue("custom.fillOpacity", 0)
    return panel.override_by_name(name, [apart, bare, dashboard.DynamicConfigValue("custom.lineWidth", 2)])


def number(
    title: str, description: str, unit: str, *queries: Query, width: int = 4, steps: Steps = PLAIN
) -> stat.Panel:
    """The present values, large. A series that has ended, such as that of an earlier phase, is not shown."""
    panel = _common(stat.Panel(), title, description, unit, queries, width, STAT_HEIGHT, steps, instant=True)
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.color_mode(common.BigValueColorMode.VALUE).graph_mode(common.BigValueGraphMode.NONE)
    return panel.no_value("-")


def word(title: str, description: str, query: Query, *, width: int = 4) -> stat.Panel:
    """The legend of the query's present series: the value of a label, such as the phase."""
    return number(title, description, "none", query, width=width).text_mode(common.BigValueTextMode.NAME)


@dataclass(frozen=True)
class Column:
    """An instant query, one row for each set of labels: its labels and its value are columns."""

    title: str | None
    """Title of the value's column; None = only the labels are shown."""
    expr: str
    unit: str


def listing(title: str, description: str, columns: Sequence[Column]) -> table.Panel:
    """A table that joins instant queries by their labels."""
    panel = _common(table.Panel(), title, description, "none", [], WIDTH, HEIGHT, PLAIN).show_header(True)
    names, excluded = {"job_name": "job"}, {"Time": True}
    for position, column in enumerate(columns):
        letter = chr(ord("A") + position)
        target = prometheus.Dataquery().expr(column.expr).instant().format(PromQueryFormat.TABLE)
        panel.with_target(target.ref_id(letter).datasource(DATASOURCE))
        if column.title is None:
            excluded[f"Value #{letter}"] = True
        else:
            names[f"Value #{letter}"] = column.title
            panel.override_by_name(column.title, [dashboard.DynamicConfigValue("unit", column.unit)])
    options = {"excludeByName": excluded, "renameByName": names}
    panel.with_transformation(dashboard.DataTransformerConfig("merge", options={}))
    return panel.with_transformation(dashboard.DataTransformerConfig("organize", options=options))


def row(title: str) -> builders.Row:
    """A question that the panels below answer."""
    return builders.Row(title)


def board(title: str, uid: str, description: str) -> builders.Dashboard:
    """An empty dashboard that links to the other ones of Nitro."""
    link = builders.DashboardLink("Nitro").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("15s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(link.include_vars(True).keep_time(True))
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )


def choice(
    name: str, label: str, query: str, *, several: bool, all_value: str | None = None
) -> builders.QueryVariable:
    """A variable whose values come from Prometheus."""
    variable = builders.QueryVariable(name).label(label).datasource(DATASOURCE).query(query)
    variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    variable.multi(several).include_all(several)
    return variable.all_value(all_value) if all_value else variable


def window() -> builders.IntervalVariable:
    """The range that rates are taken over."""
    variable = builders.IntervalVariable("window").label("Average over")
    variable.values("1m,5m,15m,1h")
    return variable.current(dashboard.VariableOption(selected=True, text="5m", value="5m"))


def firing(expr: str) -> builders.AnnotationQuery:
    """Marks on every graph at the times when an alert fired."""
    query = builders.AnnotationQuery().name("Alerts").datasource(DATASOURCE).enable(True)
    return query.icon_color(RED).expr(expr)


def to_json(found: builders.Dashboard) -> str:
    """The dashboard as Grafana imports it, with panels numbered from 1."""
    plain = json.loads(json.dumps(found.build(), cls=JSONEncoder))
    for position, panel in enumerate(plain["panels"], start=1):
        panel["id"] = position
    return json.dumps(plain, indent=1, sort_keys=True) + "\n"


def _common(
    panel: _P,
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    width: int,
    height: int,
    steps: Steps,
    instant: bool = False,
) -> _P:
    panel.title(title).description(description).unit(unit).datasource(DATASOURCE)
    panel.span(width).height(height)
    thresholds = [dashboard.Threshold(value=value, color=colour) for value, colour in steps]
    panel.thresholds(builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(thresholds))
    for position, query in enumerate(queries):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
        target = target.instant() if instant else target.range()
        panel.with_target(target.ref_id(chr(ord("A") + position)).datasource(DATASOURCE))
    return panel
