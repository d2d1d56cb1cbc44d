"""Evaluation by actors during training: its plan, and a warning for episodes that were cut."""

from dataclasses import replace
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray

from nitro_api import JobSpec
from nitro_learner.sampling.plans import EvaluationPlan, EvaluationResult

MAX_STEPS = 30_000
"""An evaluation episode that has not ended by then is cut. More than ALE's limit, 27,000 steps of 4 screens,
so that games end by themselves.
"""

SLOTS = 2
"""Requests of one evaluation. Its seeds follow from its slots, so the number is the same on a laptop and on a
cluster."""


def plans(spec: JobSpec, run: str, version: int) -> dict[str, EvaluationPlan]:
    """The evaluation of one weights version during training, of each named set; "" is a set without a name.
    The first one decides."""
    episodes = spec.evaluation.episodes
    plain = EvaluationPlan(
        run=run,
        seed=spec.seed,
        weights_version=version,
        episodes=episodes,
        max_steps=MAX_STEPS,
        slots=min(episodes, SLOTS),
    )
    return {
        setting.name: replace(plain, kwargs=setting.kwargs)
        if setting.seed is None
        else replace(plain, kwargs=setting.kwargs, seed=setting.seed, episodes_of=0)
        for setting in spec.evaluation.environment or ()
    } or {"": plain}


def columns(spec: JobSpec, result: EvaluationResult | None = None) -> dict[str, float | None]:
    """The columns of metrics.csv for the named sets, with the values of an evaluation."""
    values: dict[str, float | None] = {}
    for setting in spec.evaluation.environment or ():
        played = result.sets.get(setting.name) if result else None
        returns = played.returns.tolist() if played else []
        values[f"evaluation_{setting.name}_mean"] = fmean(returns) if returns else None
        values[f"evaluation_{setting.name}_std"] = pstdev(returns) if returns else None
    return values


def cut_warning(lengths: NDArray[np.int64]) -> str | None:
    """The warning about cut evaluation episodes, from their lengths [episodes]; None where none was cut."""
    cut = int((lengths >= MAX_STEPS).sum())
    if not cut:
        return None
    return (
        f"{cut} of {len(lengths)} evaluation episodes were cut at {MAX_STEPS:,} steps, the most that one may "
        "take, so their returns lack what would have come; if they never end, give the environment a time "
        "limit (spec.environment.kwargs.max_episode_steps, or gymnasium.wrappers.TimeLimit around your own)."
    )
