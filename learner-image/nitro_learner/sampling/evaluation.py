"""Evaluation by actors during training: its plan, and a warning for episodes that were cut."""

import numpy as np
from numpy.typing import NDArray

from nitro_api import JobSpec
from nitro_learner.sampling.plans import EvaluationPlan

MAX_STEPS = 30_000
"""An evaluation episode that has not ended by then is cut. More than ALE's limit, 27,000 steps of 4 screens,
so that games end by themselves.
"""

SLOTS = 2
"""Requests of one evaluation. Its seeds follow from its slots, so the number is the same on a laptop and on a
cluster."""


def plan(spec: JobSpec, run: str, version: int) -> EvaluationPlan:
    """The evaluation of one weights version during training."""
    episodes = spec.evaluation.episodes
    return EvaluationPlan(
        run=run,
        seed=spec.seed,
        weights_version=version,
        episodes=episodes,
        max_steps=MAX_STEPS,
        slots=min(episodes, SLOTS),
    )


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
