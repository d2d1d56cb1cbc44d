"""The x axes that a run's curves can be drawn over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class XAxis:
    """What is on the x axis: a column of metrics.csv, and the axis' label."""

    column: str
    label: str


X_AXES = {
    "steps": XAxis("env_steps", "Environment steps"),
    "round": XAxis("round", "Round"),
    "dollars": XAxis("cost_total", "Cost ($)"),
}
"""The axes by the name that a user chooses; the first is the default."""
