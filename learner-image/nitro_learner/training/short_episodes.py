"""Detection of runs whose training returns come from short episodes only, and the texts about it.

An episode that a rollout's end cuts off, and that cannot go on in the next rollout, never counts as a
training episode. Where most episodes are longer, only short ones are left, and an evaluation says more.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANY = 0.5
"""Share of the steps. Where an episode fits into a rollout, less than half of the steps are cut off."""

NOTE = "training return of short episodes only: rollouts cut longer ones; evaluations play whole episodes"
"""The footnote of a table that marks such returns by an asterisk."""


def short(cut_share: float | None) -> bool:
    """Whether most steps belong to episodes that were cut off, so that training returns are those of short
    ones."""
    return cut_share is not None and cut_share > MANY


def end_short(columns: Mapping[str, NDArray[np.float64]]) -> bool:
    """The same of a run at its last round, by the columns of its metrics.csv; False where it is not known."""
    shares = columns.get("cut_share", np.empty(0))
    return len(shares) > 0 and bool(shares[-1] > MANY)


def known(columns: Mapping[str, NDArray[np.float64]], name: str) -> bool:
    """Whether a column has a number."""
    return bool(np.isfinite(columns.get(name, np.empty(0))).any())


def reason(environment: Mapping[str, Any]) -> str:
    """Why training returns are those of short episodes, and what to do; `environment` is spec.environment."""
    because, remedy = (
        "this environment's state cannot be saved",
        "give the environment get_state() and set_state()",
    )
    if environment.get("resumeEpisodes") is False:
        because, remedy = "spec.environment.resumeEpisodes is false", "set it to true"
    fewer = "" if environment.get("envsPerActor") == 1 else "set spec.environment.envsPerActor: 1, "
    return (
        "Training returns are those of short episodes only: the end of a rollout cuts longer ones, because "
        f"{because}. Evaluations play whole episodes. To change it, {fewer}raise rolloutLength until an "
        f"episode fits, or {remedy}."
    )
