"""What boosting would have gained in total, by who chooses the rounds: a statistic, an oracle or chance.

Half of the measured rounds are boosted, so every choice spends the same. A statistic chooses the rounds in
which it is lowest, as the scaler's modes do. The oracle chooses those with the largest measured gain: if it
gains no more than chance, no statistic can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nitro_experiments.quality.agreement import Floats
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.few_seeds import Interval
from nitro_learner.scalers.nitro import STATISTICS


@dataclass(frozen=True)
class ChosenRounds:
    """The sum of the chosen rounds' gains: its mean over seeds. There are no limits where the gains chose the
    rounds, because then seeds are not independent.

    Attributes:
        gained: where a statistic's values are means of all repeats.
        once: where they are measured once, as in training; the mean over the repeats. None of others.
    """

    gained: Interval
    once: Interval | None = None


def boosted(gained: Floats) -> int:
    """How many of the measured rounds each choice boosts."""
    return len(gained) // 2


def choices(measured: Mapping[str, Floats], gained: Floats) -> dict[str, ChosenRounds]:
    """What each choice gained.

    Gains are noisy. An oracle that looks at a seed's own gains chooses their noise too: `oracle in hindsight`
    is an upper bound. `oracle` chooses for each seed by the gains of the other seeds.

    Args:
        measured: each statistic, f64 [rounds, repeats].
        gained: what boosting each round gained, f64 [rounds, seeds].
    """
    count, seeds = boosted(gained), range(gained.shape[1])
    others = gained.sum(axis=1, keepdims=True) - gained
    oracle = [gained[_lowest(-others[:, seed], count), seed].sum() for seed in seeds]
    hindsight = gained[_lowest(-gained.sum(axis=1), count)].sum(axis=0)
    by_choice = {
        "oracle": ChosenRounds(_without_limits(oracle)),
        "oracle in hindsight": ChosenRounds(_without_limits(hindsight)),
    }
    for name in dict.fromkeys(STATISTICS.values()):
        if name in measured:
            values = measured[name]
            once = [gained[_lowest(column, count)].sum(axis=0) for column in values.T]
            averaged = gained[_lowest(values.mean(axis=1), count)].sum(axis=0)
            by_choice[name] = ChosenRounds(few_seeds.mean(averaged), few_seeds.mean(np.mean(once, axis=0)))
    return by_choice | {"chance": ChosenRounds(few_seeds.mean(count * gained.mean(axis=0)))}


def _without_limits(sums: Sequence[float] | Floats) -> Interval:
    return Interval(float(np.mean(sums)), math.nan, math.nan, math.nan)


def _lowest(values: Floats, count: int) -> NDArray[np.intp]:
    return np.argsort(values, kind="stable")[:count]
