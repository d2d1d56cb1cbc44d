"""The look that all pictures share."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nitro_learner.run.rundir import naming
from nitro_learner.run.views.plot_axes import check_suffix

if TYPE_CHECKING:
    from matplotlib.axis import Axis

# Colours that stay apart for colour-blind readers (Okabe and Ito), the strongest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# After as many curves as there are colours, they come again with another line.
_LINES = ("-", "--", ":")
INK, MUTED, GRID = "#1f2933", "#66727f", "#e4e8ec"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": "#b8c0c8",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def curve_look(index: int) -> dict[str, Any]:
    """Colour and line of the curve with this index among those that are compared."""
    line = _LINES[index // len(COLOURS) % len(_LINES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": line}


def thousands(axis: Axis) -> None:
    """Write an axis' numbers as 160k: whole numbers of steps would run into each other."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=""))


@contextmanager
def styled(look: Mapping[str, Any]) -> Iterator[None]:
    """Have matplotlib's settings be its own defaults and `look` within the block, whatever the user's file
    has: `text.usetex`, say, needs a LaTeX that may not be there."""
    with _style().context(["default", dict(look)]):
        yield


def _style() -> ModuleType:
    """Import matplotlib's styles. It takes most of a second, which a command's help need not wait for.

    The import fails where MPLBACKEND names no backend that matplotlib has. Our pictures need none, so the
    backend is set afterwards, as the import would have set it.
    """
    backend = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
    try:
        style = import_module("matplotlib.style")
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with contextlib.suppress(ValueError):
            sys.modules["matplotlib"].rcParams["backend"] = backend
    return style


@contextmanager
def picture(path: Path, **layout: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes (`plt.subplots(**layout)`) in this look, saved to `path` at the block's end.

    It is made without pyplot, which would take the backend of a notebook that draws by itself.

    Raises:
        ValueError: pictures of such a kind cannot be drawn.
    """
    check_suffix(path)
    with styled(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=layout.pop("figsize"))
        axes = figure.subplots(**layout)
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path):
            figure.savefig(path, dpi=130)
