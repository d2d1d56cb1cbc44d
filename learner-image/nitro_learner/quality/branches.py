"""What more actors buy, measured: a run is continued twice from a checkpoint, over several seeds.

One branch has minActors in the next round, the other a multiple; all later rounds have minActors. Branches of
one seed share the slots that both have, so their difference is paired.
"""

from __future__ import annotations

import copy
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from nitro_api import NitroTrainingJob, load_job, resolve
from nitro_learner.checkpoint import CheckpointStore, load
from nitro_learner.experiments.curves import read
from nitro_learner.experiments.folder import ExperimentDir
from nitro_learner.experiments.plan import PlannedRun
from nitro_learner.quality.agreement import Floats
from nitro_learner.rundir import RunDir

# Evaluation episodes of a branch's last policy, its only score.
_EPISODES = 20


class BranchDir(ExperimentDir):
    """Branches of the run in `source`, each in a run folder of its own that begins with a checkpoint.

    Args:
        path: where the branches go.
        source: the run.
    """

    def __init__(self, path: Path, source: RunDir) -> None:
        super().__init__(path)
        self._source = source

    def prepare(self, run: PlannedRun) -> RunDir:
        folder = super().prepare(run)
        if not folder.checkpoints.exists():
            self._plant(folder, run)
        return folder

    def _plant(self, folder: RunDir, run: PlannedRun) -> None:
        """Copies the checkpoint that the branch grows from; the number of its next actors is the branch's."""
        round = _round(run)
        store = CheckpointStore(self._source.checkpoints, keep_last=1)
        state = copy.deepcopy(load(store.path(round)).state)
        schedule = run.job.spec.scaling.schedule
        assert schedule is not None
        state["training"]["actors"] = schedule[round]
        state["run"] = secrets.token_hex(4)
        shutil.copyfile(self._source.metrics, folder.metrics)
        CheckpointStore(folder.checkpoints, keep_last=1).save(round, state)


def branches(
    job: NitroTrainingJob, rounds: Sequence[int], *, factor: int, seeds: int, ahead: int
) -> list[PlannedRun]:
    """All branches: after each of `rounds`, for each seed, with minActors and with `factor` times as many.

    Args:
        seeds: branches per round and factor.
        ahead: rounds that a branch goes on.
    """
    return [
        _branch(job, round, times, seed, ahead)
        for seed in range(seeds)
        for round in rounds
        for times in (1, factor)
    ]


def _branch(job: NitroTrainingJob, round: int, factor: int, seed: int, ahead: int) -> PlannedRun:
    data = job.to_dict()
    spec, actors = data["spec"], job.spec.scaling.min_actors
    schedule = [actors] * (round + ahead)
    schedule[round] = factor * actors
    spec["seed"] = job.spec.seed + 1 + seed
    spec["scaling"] = {"scaler": "schedule", "schedule": schedule}
    spec["stop"] = {"rounds": round + ahead}
    spec["evaluation"] = {"episodes": _EPISODES, "everyRounds": round + ahead}
    spec["backend"] = {"type": "Local", "local": {"processes": 1}}
    variant = f"round-{round}-x{factor}"
    folder = PurePosixPath("branches", variant, f"seed-{seed}")
    return PlannedRun(job.spec.environment.id, variant, seed, resolve(load_job(data)), folder)


def _round(run: PlannedRun) -> int:
    """After which round the branch begins."""
    return int(run.variant.split("-")[1])


def gains(folder: BranchDir, runs: Sequence[PlannedRun], rounds: Sequence[int]) -> Floats:
    """Return of each branch with more actors minus that of its twin, f64 [rounds, seeds].

    Raises:
        RunDirError: a branch has not been trained.
    """
    final = {
        (_round(run), not run.variant.endswith("-x1"), run.seed): float(
            read(folder.run(run)).summary["evaluation"]["mean"]
        )
        for run in runs
    }
    seeds = sorted({run.seed for run in runs})
    return np.array([[final[r, True, s] - final[r, False, s] for s in seeds] for r in rounds])
