"""What more actors buy, measured: a run is continued from a checkpoint in three ways, over several seeds.

The first branch has minActors in every round. The second has a multiple of minActors in the next round, and
minActors after it. The third has minActors in every round, and further rounds that together have the second
branch's additional actors: the same actors, spent later. Branches of one seed share the slots that they have
in common, so differences are paired.

Additional slots go on from copies of the end states of the first minActors slots, each with random numbers of
its own. If they began with a reset, the boosted round would have more of the episodes' beginnings than the
other rounds have, and the gain would be that of other data as well as of more data.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from nitro_actor.engines.base import pack_generators, seeded_generators
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.state import PREFIX
from nitro_actor.rollout import random_sources
from nitro_api import JobSpec, ResolvedJob, load_job, resolve
from nitro_experiments.planning.plan import BACKEND, PlannedRun
from nitro_experiments.quality.agreement import Floats
from nitro_experiments.reading.curves import read
from nitro_experiments.reading.folder import ExperimentDir
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import CheckpointStore, load
from nitro_learner.run.rundir import RunDir
from nitro_learner.sampling.seeds import slot_seed
from nitro_learner.training.state import EndState

# Evaluation episodes of a branch's last policy, its only score.
_EPISODES = 20
_GENERATORS = f"{PREFIX}generators"
"""The tensor of an end state that has the environments' random generators, if they have some."""


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
        # Look for a checkpoint, not for the folder: `_plant` may have been interrupted before it ended.
        if not CheckpointStore(folder.checkpoints, keep_last=1).rounds():
            self._plant(folder, run)
        return folder

    def _plant(self, folder: RunDir, run: PlannedRun) -> None:
        """Copy the checkpoint from which the branch goes on, with the branch's actors for the next round."""
        round = _round(run)
        store = CheckpointStore(self._source.checkpoints, keep_last=1)
        state = load(store.path(round)).state
        training, spec = state["training"], run.job.spec
        training["actors"] = spec.scaling.max_actors
        sources = _sources(training["end_states"], spec)
        training["end_states"] = _begin(training["end_states"], sources, spec, round + 1)
        if sources:  # what learners carry of a slot's episodes goes with them
            environment = DescribedEnvironment.from_json(state["played"]["environment"])
            policies = registry.make_policies(spec, environment)
            policies.load_state_dict(state["policies"])
            policies.copy_slots(sources)
            state["policies"] = policies.state_dict()
        state["run"] = secrets.token_hex(4)
        shutil.copyfile(self._source.metrics, folder.metrics)
        shutil.copyfile(self._source.ledger, folder.ledger)
        CheckpointStore(folder.checkpoints, keep_last=1).save(round, state)


@dataclass(frozen=True)
class Gains:
    """What actors bought, as differences of return between branches, f64 [rounds, seeds] each.

    Attributes:
        sooner: return with additional actors in the next round, minus that of the branch without them.
        later: return with the same additional actors in further rounds, minus that of the branch without
            them.
    """

    sooner: Floats
    later: Floats


def branches(
    job: ResolvedJob, rounds: Sequence[int], *, factor: int, seeds: int, ahead: int
) -> list[PlannedRun]:
    """All branches, for each seed and after each of `rounds`.

    Args:
        factor: multiple of minActors in the next round of the second branch.
        seeds: branches per round and kind.
        ahead: number of rounds of each of the first two branches.

    Raises:
        JobInvalid: a job cannot have so many actors or rounds.
    """
    return [
        _branch(job, round, kind, seed, following)
        for seed in range(seeds)
        for round in rounds
        for kind, following in _kinds(job.spec.scaling.min_actors, factor, ahead)
    ]


def _kinds(actors: int, factor: int, ahead: int) -> Iterator[tuple[str, list[int]]]:
    """Each kind's name and the actors of the rounds that follow."""
    yield "base", [actors] * ahead
    yield "sooner", [factor * actors] + [actors] * (ahead - 1)
    yield "later", [actors] * (ahead + factor - 1)


def _branch(job: ResolvedJob, round: int, kind: str, seed: int, following: list[int]) -> PlannedRun:
    data = job.to_dict()
    spec, actors = data["spec"], job.spec.scaling.min_actors
    first, last = following[0], round + len(following)
    spec["seed"] = job.spec.seed + 1 + seed
    # Only the next round may have more actors than minActors; the copied checkpoint asks for them.
    numbers = {"minActors": actors, "maxActors": first, "initialActors": actors}
    spec["scaling"] = {"scaler": "fixed", **numbers}
    spec["stop"] = {"rounds": last}
    spec["evaluation"] = {"episodes": _EPISODES, "everyRounds": last}
    spec["backend"] = BACKEND
    spec.pop("tracking", None)  # the user's trackers are for the run itself, not for each of its branches
    variant = f"round-{round}-{kind}"
    # Each factor and length has its own folder, so that a run can be measured with several of them.
    spent = f"{len(following)}-rounds-first-{first}-actors"
    folder = PurePosixPath("continued", f"{variant}-{spent}", f"seed-{seed}")
    return PlannedRun(job.spec.environment.id, variant, seed, resolve(load_job(data)), folder)


def _sources(ends: Mapping[int, EndState], spec: JobSpec) -> dict[int, int]:
    """The slot whose episodes each additional slot of the branch's first round goes on with: the first
    minActors slots in turn. A slot that has nothing to copy is left out."""
    kept = spec.scaling.min_actors
    return {slot: slot % kept for slot in range(kept, spec.scaling.max_actors) if slot % kept in ends}


def _begin(
    ends: Mapping[int, EndState], sources: Mapping[int, int], spec: JobSpec, round: int
) -> dict[int, EndState]:
    """The states in which the slots of the branch's first round begin.

    The first minActors slots go on from their own. The others have copies of their `sources`, with the random
    generators that the slot's environments would have had after a reset. Those without begin with a reset.
    """
    begun = {slot: ends[slot] for slot in range(spec.scaling.min_actors) if slot in ends}
    for slot, source in sources.items():
        begun[slot] = dict(ends[source])
        if _GENERATORS in begun[slot]:
            seeds, _ = random_sources(slot_seed(spec.seed, round, slot), spec.environment.envs_per_actor)
            begun[slot][_GENERATORS] = pack_generators(seeded_generators(seeds))
    return begun


def _round(run: PlannedRun) -> int:
    """The round after which the branch begins."""
    return int(run.variant.split("-")[1])


def gains(folder: BranchDir, runs: Sequence[PlannedRun], rounds: Sequence[int]) -> Gains:
    """The differences between trained branches.

    Raises:
        RunDirError: a branch has not been trained.
    """
    final = {
        (run.variant, run.seed): float(read(folder.run(run), run.job).summary["evaluation"]["mean"])
        for run in runs
    }
    seeds = sorted({run.seed for run in runs})

    def returns(kind: str) -> Floats:
        return np.array([[final[f"round-{round}-{kind}", seed] for seed in seeds] for round in rounds])

    base = returns("base")
    return Gains(returns("sooner") - base, returns("later") - base)
