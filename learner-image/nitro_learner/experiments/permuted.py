"""Permuted controls: runs that repeat another run's actors of each round, in a random order within blocks.

Such a run has the same seed, and spends the same at nearly the same time. Its random order does not depend on
which round needs more actors; the scaler's order should. If the control learns equally well, the scaler's
choice of rounds has no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nitro_api import NitroTrainingJob, load_job, resolve
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


def with_schedule(job: NitroTrainingJob, schedule: Sequence[int]) -> NitroTrainingJob:
    """A resolved job with the scaler `schedule` in place of its own; all else is equal."""
    data = job.to_dict()
    data["spec"]["scaling"] = {"scaler": "schedule", "schedule": list(schedule)}
    return resolve(load_job(data))


def control_of(job: NitroTrainingJob, metrics: Path) -> NitroTrainingJob:
    """The control of a run that has ended.

    Args:
        job: that run's resolved job. The control has the same seed. A block has spec.scaling.window rounds.
        metrics: that run's metrics.csv.

    Raises:
        RunDirError: the file is missing or damaged, or has more rounds than a schedule may have.
    """
    actors = [int(row["actors"] or 0) for row in read_metrics(metrics)]
    if len(actors) > MOST_ROUNDS:
        raise RunDirError(
            f"{metrics} has {len(actors)} rounds, and a schedule has at most {MOST_ROUNDS}, so the run can "
            "have no permuted control. Choose a smaller budget."
        )
    return with_schedule(job, permuted(actors, job.spec.scaling.window, job.spec.seed))
