"""Whether a statistic of a round foretells what the next round improves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nitro_experiments.quality.agreement import Floats, spearman
from nitro_experiments.reading.curves import FinishedRun
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.few_seeds import Interval
from nitro_learner.training.round_report import STATISTICS


def improvements(run: FinishedRun) -> Floats:
    """What each round added to the policy's return, f64 [rounds], NaN where it is not known.

    Row j has the returns of the policy that round j sampled with, so round j added row j + 1 minus row j. The
    returns are those of evaluations where every round was evaluated, else those of the training episodes.
    """
    evaluated = run.columns["evaluation_mean"][1:]
    known = len(evaluated) > 0 and np.isfinite(evaluated).all()
    returns = run.columns["evaluation_mean" if known else "reward_round"]
    final = run.summary.get("evaluation", {}).get("mean", np.nan) if known else np.nan
    return np.diff(np.append(returns, final))


def foretold(run: FinishedRun) -> dict[str, float]:
    """Spearman's correlation of each statistic of round k with the improvement of round k + 1, in one run."""
    correlations = {}
    gains = improvements(run)[1:]
    for name in STATISTICS:
        if name in run.columns:
            column = run.columns[name][: len(gains)]
            known = np.isfinite(column) & np.isfinite(gains)
            correlations[name] = spearman(column[known], gains[known])
    return correlations


def over_runs(runs: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    """The mean of each statistic's correlation over runs that have it."""
    means = {}
    for name in STATISTICS:
        known = np.array([run[name] for run in runs if np.isfinite(run.get(name, np.nan))])
        if len(known):
            means[name] = few_seeds.mean(known)
    return means
