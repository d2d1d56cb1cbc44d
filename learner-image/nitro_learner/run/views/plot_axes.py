"""The x axes that a run's curves can be drawn over, and the kinds of pictures."""

from dataclasses import dataclass
from pathlib import Path


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


def check_suffix(picture: Path) -> None:
    """Raise ValueError if pictures of that kind cannot be drawn."""
    if picture.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{picture}: must end in .png, .svg or .pdf")


def x_axis(name: str) -> XAxis:
    """The axis of that name. Raises ValueError if there is none."""
    if name not in X_AXES:
        raise ValueError(f"x={name!r}: must be one of {', '.join(X_AXES)}")
    return X_AXES[name]
