"""A search on screen: a line per trial that ends, JSON lines for programs."""

from __future__ import annotations

import json
import time

from nitro_experiments.search.study import SearchStudy, Trial
from nitro_experiments.writing import cells
from nitro_learner.run.views.table import clock
from nitro_learner.training.stop import seconds_left


class SearchProgress:
    """Print each trial that ends.

    Args:
        total: trials in all.
        as_json: whether a line is a JSON object, {"event": "trial", ...}.
    """

    def __init__(self, study: SearchStudy, total: int, *, as_json: bool) -> None:
        self._study = study
        self._total = total
        self._json = as_json
        self._begin = time.monotonic()
        self._before = self._ended()

    def ended(self, trial: Trial) -> None:
        best, ended = self._study.best(), self._ended()
        begin = {"seconds": self._begin, "trials": self._before}
        now = {"seconds": time.monotonic(), "trials": ended}
        left = seconds_left([begin, now], {"trials": self._total})
        if self._json:
            event = {
                "event": "trial",
                "trial": trial.number,
                "state": trial.state,
                "settings": dict(trial.settings),
                "score": trial.score,
                "best": best and best.number,
                "etaSeconds": left,
            }
            print(json.dumps(event), flush=True)
            return
        score = trial.score if trial.score is not None else trial.reached and trial.reached[1]
        shown = "-" if score is None else cells.number(score)
        best_text = (
            f"best {cells.number(best.score or 0.0)} of trial {best.number}" if best else "no score yet"
        )
        print(
            f"{ended:>4}/{self._total}  trial {trial.number:<4} {trial.state:<9}"
            f"{trial.spent.get('rounds', 0):>4.0f} rounds  score {shown:>8}  {best_text}  left {clock(left)}",
            flush=True,
        )

    def _ended(self) -> int:
        return sum(trial.state != "running" for trial in self._study.trials())
