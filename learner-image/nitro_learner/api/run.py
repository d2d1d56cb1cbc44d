"""A run folder as a Python object."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nitro_api import ResolvedJob, resolve_stored
from nitro_learner.run.metrics_file import columns_of, read_metrics, read_numbers
from nitro_learner.run.rundir import RunDir

if TYPE_CHECKING:
    from nitro_learner.api.policy import TrainedPolicy


class Run:
    """A run in its folder, finished or not. Each attribute is read when it is asked for.

        run = nitro.Run("runs/hopper-20260101-120000")
        run.metrics["reward_mean"][-1], run.cost

    Raises:
        RunDirError: it is no run folder, or a damaged one. The attributes raise it, too.
    """

    def __init__(self, path: str | Path) -> None:
        self._folder = RunDir(Path(path))
        self._folder.read_job()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._folder.path

    @property
    def job(self) -> ResolvedJob:
        """The job with every default filled in."""
        return resolve_stored(self._folder.read_job())

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The columns of metrics.csv by name, f64 [rounds], NaN where a round has no such number."""
        return columns_of(read_metrics(self._folder.metrics))

    @property
    def summary(self) -> dict[str, Any]:
        """What summary.json says: returns, cost, versions. Empty while the run has not ended, also after it
        was extended."""
        summary = self._folder.read_summary()
        rows = read_numbers(self._folder.metrics)
        gone_on = bool(summary and rows) and summary.get("rounds", 0) < (rows[-1]["round"] or 0)
        return {} if gone_on else summary

    @property
    def cost(self) -> float:
        """What the run has cost, in US dollars; while it has not ended, up to its last round."""
        summary = self.summary
        return float(summary["cost"]["total"] if summary else self.metrics["cost_total"][-1])

    def policy(self, *, best: bool = False, seed: int | None = None) -> TrainedPolicy:
        """The policy of the newest checkpoint, or the one with the best evaluation; see `load`."""
        # The run's figures can be read without the actor's package.
        from nitro_learner.api.loading import load

        return load(self.path, best=best, seed=seed)

    def plot(self, out: str | Path | None = None, *, x: str = "steps") -> Path:
        """Draw the run, as `nitro plot` does, and return the picture's path.

        Args:
            out: a .png, .svg or .pdf; result.png in the run folder by default.
            x: steps, round or dollars.

        Raises:
            ValueError: there is no such axis, or `out` has another suffix.
        """
        from nitro_learner.run.views.plot import draw

        return draw([self.path], Path(out) if out else self._folder.plot, x)
