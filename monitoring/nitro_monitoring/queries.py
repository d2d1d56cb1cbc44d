"""The queries of a generated dashboard, as plain PromQL: for tests, and for pictures without Grafana."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PanelQuery:
    """One query of a panel. `panel` is its title."""

    panel: str
    expr: str
    legend: str


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All panels with queries, in order; rows left out."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Mapping[str, Any]) -> list[PanelQuery]:
    """Every query of every panel."""
    return [
        PanelQuery(panel["title"], target["expr"], target.get("legendFormat", ""))
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def filled(expr: str, variables: Mapping[str, str]) -> str:
    """The expression with the dashboard's variables replaced.

    Raises:
        KeyError: one has no value.
    """
    return re.sub(r"\$(\w+)", lambda found: variables[found[1]], expr)
