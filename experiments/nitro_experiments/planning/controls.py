"""Controls: runs that spend what other runs have spent, but do not look at their own training to decide when.

A permuted control repeats the actors of one run with the same seed, in a random order within blocks. It
spends the same at nearly the same time. Its random order does not depend on which round needs more actors;
the scaler's order should. If the control learns equally well, the scaler's choice of rounds has no value.

A replayed control has in each round the mean number of actors that a variant's runs had in it. If it learns
equally well, a fixed list of numbers can take the scaler's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from nitro_api import ResolvedJob, load_job, resolve
from nitro_api.spec.scaling import MOST_ROUNDS
from nitro_learner.run.metrics_file import read_metrics
from nitro_learner.run.rundir import RunDirError

_ORDER = 0x7065726D
"""A number that sets the random numbers of this module apart from others of the same seed."""


def permuted(actors: Sequence[int], block: int, seed: int) -> list[int]:
    """The same numbers in another order, which the seed draws within each block of `block` numbers."""
    generator = np.random.default_rng([_ORDER, seed])
    blocks = [actors[start : start + block] for start in range(0, len(actors), block)]
    return [int(number) for part in blocks for number in generator.permutation(part)]


def mean_profile(runs: Sequence[Sequence[int]]) -> list[int]:
    """The mean number of actors in each round, of the runs that had the round.

    Numbers are rounded such that the sum up to each round is the means' sum, rounded.
    """
    rounds = range(max(map(len, runs)))
    means = [np.mean([actors[index] for actors in runs if index < len(actors)]) for index in rounds]
    sums = np.floor(np.cumsum([0.0, *means]) + 0.5).astype(int)
    return [int(after - before) for before, after in pairwise(sums)]


def with_schedule(job: ResolvedJob, schedule: Sequence[int]) -> ResolvedJob:
    """A resolved job with the scaler `schedule` in place of its own; all else is equal. Its range is widened
    where the schedule leaves it: a round of an off-policy job waits for at least minActors fragments.
    """
    data = job.to_dict()
    data["spec"]["scaling"] = {
        "scaler": "schedule",
        "schedule": list(schedule),
        "minActors": min(job.spec.scaling.min_actors, *schedule),
        "maxActors": max(job.spec.scaling.max_actors, *schedule),
    }
    return resolve(load_job(data))


def actors_of(metrics: Path) -> list[int]:
    """The actors of each round of a run that has ended.

    Args:
        metrics: the run's metrics.csv.

    Raises:
        RunDirError: the file is missing or damaged, or has more rounds than a schedule may have.
    """
    actors = [int(row["actors"] or 0) for row in read_metrics(metrics)]
    if len(actors) > MOST_ROUNDS:
        raise RunDirError(
            f"{metrics} has {len(actors)} rounds, and a schedule has at most {MOST_ROUNDS}, so the run can "
            "have no control. Choose a smaller budget."
        )
    return actors
