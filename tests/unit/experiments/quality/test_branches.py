"""Branches of a run: each in a folder of its own, which begins with the run's checkpoint."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_support import spec
from learner_support import HOPPER, fragment, lanes_of
from nitro_api import NitroTrainingJob, load_job, resolve
from nitro_experiments.quality import detection
from nitro_experiments.quality.branches import BranchDir, branches
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.ppo.memories import CriticMemories
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.networks.normalise import RewardNormaliser
from nitro_learner.run.rundir import RunDir, RunDirBusy
from nitro_learner.training.round_report import COLUMNS


@pytest.fixture
def source(tmp_path: Path) -> RunDir:
    """A run of two rounds with both checkpoints."""
    folder = RunDir(tmp_path / "run")
    for round in (1, 2):
        state = {"run": "abc", "training": {"actors": 4, "end_states": {}}}
        CheckpointStore(folder.checkpoints, keep_last=9).save(round, state)
    with folder.metrics.open("w") as file:
        csv.writer(file).writerow(COLUMNS)
    folder.ledger.touch()
    return folder


def _job() -> NitroTrainingJob:
    return resolve(load_job(spec()["job"]))


def test_a_run_can_be_asked_for_several_factors_and_lengths(source: RunDir) -> None:
    """experiments/paper/fig09-efficiency.yaml asks for three factors. Equal branches are trained once."""
    planted = BranchDir(source.path / "detector", source)
    seen: dict[Path, dict[str, Any]] = {}
    for factor, ahead in ((2, 3), (4, 3), (2, 4)):
        for run in branches(_job(), [2], factor=factor, seeds=1, ahead=ahead):
            assert not planted.finished(run), "refuses a branch with other actors"
            job = run.job.to_dict()
            assert seen.setdefault(planted.prepare(run).path, job) == job
    assert len(seen) == 8


def test_a_long_run_has_branches_too() -> None:
    """A schedule has at most 1000 entries."""
    planned = branches(_job(), [1200], factor=2, seeds=1, ahead=3)
    assert [run.job.spec.stop.rounds for run in planned] == [1203, 1203, 1204]


def test_the_users_trackers_are_not_told_of_branches() -> None:
    data = spec()["job"]
    data["spec"]["tracking"] = {"wandb": {"project": "mine"}}
    job = resolve(load_job(data))
    assert [run.job.spec.tracking for run in branches(job, [2], factor=2, seeds=1, ahead=3)] == [None] * 3
    assert job.spec.tracking


def test_a_second_command_is_refused_while_branches_are_trained(
    source: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would rewrite the jobs of branches that train, and remove their summaries."""

    async def repeat(*_: Any) -> dict[str, Any]:
        pytest.fail("it measures before it is refused")

    monkeypatch.setattr(detection, "repeat", repeat)
    monkeypatch.setattr(detection, "read", lambda *_: None)
    monkeypatch.setattr(detection, "foretold", lambda _: {})
    state = {"run": "abc", "training": {"actors": 4, "end_states": {}}}
    CheckpointStore(source.checkpoints, keep_last=9).save(3, state)
    plan = detection.Plan(rounds=3, repeats=2, gain=2, factor=2, ahead=1, jobs=1)
    with (
        RunDir(source.path / "detector").locked(),
        pytest.raises(RunDirBusy, match=r"detector: another nitro process .*\. Wait for it, or leave --gain"),
    ):
        detection.measure([(source, _job())], plan)


def test_a_branch_that_was_broken_off_in_planting_is_planted_again(source: RunDir) -> None:
    planted = BranchDir(source.path / "detector", source)
    (_, sooner, _) = branches(_job(), [2], factor=3, seeds=1, ahead=1)
    checkpoints = planted.run(sooner).checkpoints
    checkpoints.mkdir(parents=True)
    (checkpoints / "round-000002.partial").touch()
    planted.prepare(sooner)
    found = CheckpointStore(checkpoints, keep_last=1).latest()
    assert found is not None
    assert (found.round, found.state["training"]["actors"]) == (2, 3)


def test_additional_slots_have_what_the_learner_carries_of_their_episodes(source: RunDir) -> None:
    """Slot 0 is all that the branch's rounds have of the run; slot 3 was last used some rounds ago."""
    rewards, memories = RewardNormaliser(0.9), CriticMemories(5)
    played = [fragment(slot, envs=2) for slot in (0, 3)]
    rewards([lanes_of(part) for part in played])
    memories.keep(played, np.arange(20, dtype=np.float32).reshape(2, 2, 5))
    data = spec()["job"]
    data["spec"]["algorithm"]["hyperparameters"]["normaliseRewards"] = True
    data["spec"]["network"] = {"hiddenSizes": [8], "recurrent": {"hiddenSize": 5}}
    job = resolve(load_job(data))
    policies = registry.make_policies(job.spec, HOPPER)
    saved = policies.state_dict()
    parts = saved["learners"][0]["state"]["policies"]["agent"]
    parts |= {"rewards": rewards.state_dict(), "memories": memories.state_dict()}
    state = {
        "run": "abc",
        "policies": saved,
        "played": policies.played(HOPPER),
        "training": {"actors": 1, "end_states": {slot: {"state/x": np.array([slot])} for slot in (0, 3)}},
    }
    CheckpointStore(source.checkpoints, keep_last=9).save(2, state)
    planted = BranchDir(source.path / "detector", source)
    (_, sooner, _) = branches(job, [2], factor=3, seeds=1, ahead=1)
    found = CheckpointStore(planted.prepare(sooner).checkpoints, keep_last=1).latest()
    assert found is not None
    assert [end["state/x"].item() for end in found.state["training"]["end_states"].values()] == [0, 0, 0]
    parts = found.state["policies"]["learners"][0]["state"]["policies"]["agent"]
    rewards.load_state_dict(parts["rewards"])
    memories.load_state_dict(parts["memories"])
    following = [
        replace(fragment(0, envs=2, resumed=True), meta={"slot": s, "resumed": True}) for s in range(3)
    ]
    own, *others = memories.before(following, 2)
    assert own.any()
    for other in others:
        np.testing.assert_array_equal(other, own)
    rewards([lanes_of(part) for part in following])
    carried = rewards.state_dict()["running"]
    for slot in ("1", "2"):
        np.testing.assert_array_equal(carried[slot], carried["0"])
    assert set(carried) == {"0", "1", "2", "3"}, "slot 3 is no slot of the branch"
