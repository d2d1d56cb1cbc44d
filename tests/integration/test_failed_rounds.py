"""What is saved of a run whose actors or Redis fail: the last whole round, and nothing of the next one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from nitro_api import load_job, resolve
from nitro_learner.backends.base import FatalError
from nitro_learner.backends.cache.base import Cache, CacheUnreachable
from nitro_learner.backends.local import LocalBackend
from nitro_learner.checkpoints.store import CheckpointStore, load
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import open_run
from nitro_learner.run.session import train
from nitro_learner.run.views.plot import draw
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import EvaluationPlan, EvaluationResult
from nitro_learner.training.failures import TrainingFailed
from train_support import job

SPEC: dict[str, Any] = {
    "environment": {"id": "Pendulum-v1", "rolloutLength": 64, "envsPerActor": 1},
    "scaling": {"scaler": "fixed", "minActors": 1, "initialActors": 1, "maxActors": 1},
    "stop": {"rounds": 3},
}


async def run(folder: Path, every: int = 1) -> dict[int, bytes]:
    """Trains; Adam's first moments in each checkpoint that is left, whether the run ended well or not."""
    learner = {"checkpoint": {"everyRounds": every, "keepLast": 10}}
    evaluation = {"everyRounds": 1, "episodes": 1}
    small = resolve(load_job(job(**SPEC, learner=learner, evaluation=evaluation)))
    opened = open_run(RunDir(folder), small, resume=True, run_id="run")
    with contextlib.suppress(TrainingFailed):
        await train(opened, LocalBackend(small.spec, "run"), draw=draw)
    checkpoints = CheckpointStore(folder / "checkpoints", 10)
    saved = {
        round: load(checkpoints.path(round)).state["policies"]["learners"][0]["state"]
        for round in checkpoints.rounds()
    }
    return {round: algorithm["adam"]["exp_avg"].numpy().tobytes() for round, algorithm in saved.items()}


async def test_a_round_that_was_learned_from_but_not_ended_is_not_saved_as_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = await run(tmp_path / "calm")
    evaluate = Dispatcher.evaluate

    async def refused(self: Dispatcher, plan: EvaluationPlan) -> EvaluationResult:
        if plan.weights_version == 2:
            raise FatalError("the actor refuses the token")
        return await evaluate(self, plan)

    monkeypatch.setattr(Dispatcher, "evaluate", refused)
    assert sorted(calm) == [1, 2, 3]
    assert await run(tmp_path / "rare", every=5) == {}
    assert await run(tmp_path / "every") == {round: calm[round] for round in (1, 2)}


@pytest.mark.parametrize("every", [1, 5])
async def test_a_finished_round_is_saved_when_redis_is_gone_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    calm = await run(tmp_path / "calm")
    publish = Cache.publish_weights

    async def unreachable(self: Cache, version: int, payload: bytes) -> None:
        if version == 2:
            raise CacheUnreachable("Redis does not answer")
        await publish(self, version, payload)

    monkeypatch.setattr(Cache, "publish_weights", unreachable)
    assert (await run(tmp_path / "struck", every))[2] == calm[2]


async def test_a_redis_that_returns_soon_costs_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = await run(tmp_path / "calm")
    publish, failed = Cache.publish_weights, list[int]()

    async def briefly_unreachable(self: Cache, version: int, payload: bytes) -> None:
        if version == 1 and not failed:
            failed.append(version)
            raise CacheUnreachable("Redis does not answer")
        await publish(self, version, payload)

    monkeypatch.setattr(Cache, "publish_weights", briefly_unreachable)
    assert await run(tmp_path / "struck") == calm
    assert failed
