"""The generated dashboards against a Prometheus with data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nitro_monitoring.files import DASHBOARDS
from nitro_monitoring.queries import filled, queries
from prometheus_support import Prometheus

ROOT = Path(__file__).parents[2]


def board(name: str) -> dict[str, Any]:
    """A dashboard as the chart ships it."""
    found: dict[str, Any] = json.loads((ROOT / DASHBOARDS / f"{name}.json").read_text())
    return found


def empty_queries(
    prometheus: Prometheus,
    dashboard: Mapping[str, Any],
    variables: Mapping[str, str],
    start: float,
    end: float,
) -> dict[str, str]:
    """The queries that give nothing between two Unix times: "panel: legend" -> expression.

    Series of nothing but NaN, which Grafana draws as nothing, count as none.
    """
    step = max(1.0, (end - start) / 200)
    start = end - step * ((end - start) // step)  # so that the newest moment is one of those asked for
    found = {}
    for query in queries(dashboard):
        expr = filled(query.expr, variables)
        series = prometheus.range(expr, start, end, step)
        if not any(not math.isnan(float(value)) for one in series for _, value in one["values"]):
            found[f"{query.panel}: {query.legend}"] = expr
    return found


def assert_all_filled(found: Mapping[str, str], rightly_empty: Mapping[str, str]) -> None:
    """Every query gave something but those that are listed with a reason.

    Raises:
        AssertionError: the text names the panel, the legend and the expression.
    """
    wrong = {name: expr for name, expr in found.items() if name not in rightly_empty}
    assert not wrong, f"empty: {json.dumps(wrong, indent=1)}"
