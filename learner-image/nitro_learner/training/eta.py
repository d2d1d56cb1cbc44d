"""How long something goes on: until the nearest of its limits, at the rate of its last steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median_high

from nitro_api.spec.stop import Stop
from nitro_learner.training.stop import Progress

KEPT = 10
"""Moments that a run's estimate is made from: the ends of so many rounds, and so one round fewer."""


def seconds_left(
    measured: Sequence[Mapping[str, float]], limits: Mapping[str, float], *, whole: bool = False
) -> float | None:
    """Seconds until the first of the limits is reached; None where nothing is known of any.

    Args:
        measured: amounts by name, `seconds` among them, at moments one after the other. What lies between two
            of them is a step.
        limits: amounts at which it ends, by name.
        whole: whether it ends with a whole step only.
    """
    steps = list(pairwise(measured))
    if not steps:
        return None
    # The median: a round that compiles, evaluates, or in which the machine slept says little of the others.
    usual = {
        name: median_high(after[name] - before[name] for before, after in steps) for name in measured[-1]
    }
    counts = [
        max(0.0, limit - measured[-1][name]) / usual[name]
        for name, limit in limits.items()
        if usual[name] > 0
    ]
    if not counts:
        return None
    count = min(counts)
    # Costs are sums of floats, and must not add a round that the limit does not.
    return usual["seconds"] * (math.ceil(count - 1e-9) if whole else count)


def of_run(measured: Sequence[Progress], limits: Stop) -> float | None:
    """Seconds until a run ends by one of its stop conditions; nobody knows when a target reward is reached.

    Args:
        measured: where the run stood at the ends of its last rounds.
    """
    ends = {
        "rounds": limits.rounds,
        "actor_rounds": limits.actor_rounds,
        "env_steps": limits.env_steps,
        "dollars": limits.budget_dollars,
        "seconds": limits.duration_seconds,
    }
    return seconds_left(
        [
            {
                "rounds": progress.round,
                "actor_rounds": progress.actor_rounds,
                "env_steps": progress.env_steps,
                "dollars": progress.cost,
                "seconds": progress.seconds,
            }
            for progress in measured
        ],
        {name: end for name, end in ends.items() if end is not None},
        whole=True,
    )
