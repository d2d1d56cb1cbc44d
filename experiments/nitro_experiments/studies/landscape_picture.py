"""The picture of a landscape: returns in three dimensions, and contours of return and surrogate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nitro_experiments.studies.landscape import Floats, Landscape
from nitro_learner.run.views.plot_style import INK, MUTED, picture

_UP, _DOWN = "along $\\lambda_{max}$", "along $\\lambda_{min}$"


def draw(landscape: Landscape, name: str, path: Path) -> None:
    """Write the picture; `name` says what was trained."""
    grid = np.meshgrid(landscape.x, landscape.x)
    with picture(path, figsize=(13, 4.6)) as (figure, axes):
        axes.remove()
        solid = figure.add_axes((0.0, 0.02, 0.35, 0.86), projection="3d")
        solid.plot_surface(
            *grid, landscape.returns, cmap="RdYlBu_r", lw=0, antialiased=True, rcount=60, ccount=60
        )
        solid.set(xlabel=_UP, ylabel=_DOWN)
        solid.view_init(elev=32, azim=-52)
        solid.tick_params(labelsize=8, pad=0)
        for left, title, values in (
            (0.41, "Return", landscape.returns),
            (0.72, "Surrogate", landscape.surrogate),
        ):
            _contours(figure, (left, 0.14, 0.25, 0.68), title, grid, values)
        ratio = "none" if landscape.ratio is None else f"{landscape.ratio:.2f}"
        figure.text(0.02, 0.95, f"{name}, round {landscape.round}", fontsize=14, fontweight="bold", color=INK)
        figure.text(
            0.98,
            0.95,
            f"R = {ratio}     $\\lambda_{{max}}$ = {landscape.lambda_max:.3g}     "
            f"$\\lambda_{{min}}$ = {landscape.lambda_min:.3g}",
            fontsize=11,
            color=MUTED,
            ha="right",
        )


def _contours(figure: Any, place: tuple[float, ...], title: str, grid: Any, values: Floats) -> None:
    axis = figure.add_axes(place)
    if np.ptp(values) > 0:
        filled = axis.contourf(*grid, values, levels=14, cmap="RdYlBu_r")
        axis.contour(*grid, values, levels=14, colors="white", linewidths=0.4, alpha=0.6)
        figure.colorbar(filled, ax=axis, pad=0.02).ax.tick_params(labelsize=8)
    axis.plot([0], [0], "o", ms=7, mfc="white", mec=INK)
    axis.set(xlabel=_UP, ylabel=_DOWN)
    axis.set_title(title, loc="left", fontsize=11, color=INK)
    axis.grid(visible=False)
