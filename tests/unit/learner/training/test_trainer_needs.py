"""A run tells which actors it needs before it asks them, and that it needs none while it learns."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from memory_backend import MemoryBackend
from nitro_api import load_job, resolve
from nitro_api.costs.ledger import Ledger
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.training import needs
from nitro_learner.training.builder import Sitting
from nitro_learner.training.costs import Meter
from nitro_learner.training.needs import ActorNeed
from nitro_learner.training.round_report import Listener
from nitro_learner.training.trainer import Trainer
from train_support import job

STEPS = 24
SMALL: dict[str, Any] = {
    "environment": {
        "id": "W-v0",
        "entryPoint": "actor_support:Walk",
        "rolloutLength": STEPS,
        "envsPerActor": 1,
    },
    "algorithm": {"hyperparameters": {"epochs": 1, "minibatchSize": 24}},
    "network": {"hiddenSizes": [8]},
    "scaling": {"scaler": "schedule", "schedule": [3, 2, 4], "minActors": 2, "maxActors": 4},
    "evaluation": {"episodes": 3, "everyRounds": 100},
    "stop": {"rounds": 3},
}
IMPACT = {"name": "impact", "hyperparameters": {"batchSize": STEPS, "epochs": 1, "minibatchSize": 24}}


class Told(Listener):
    """The needs, and the stages between them."""

    essential = True

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.need = ActorNeed(0)

    def on_need_changed(self, need: ActorNeed) -> None:
        self.need = need
        self.events.append((need.now, [one.actors for one in need.later]))

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:  # noqa: ARG002
        self.events.append(stage)


async def run(folder: Path, **spec: Any) -> list[Any]:
    """Train, and return what was told. Every request must find itself needed."""
    resolved = resolve(load_job(job(**(SMALL | spec))))
    backend, told = MemoryBackend(resolved.spec), Told()

    async def needed(_: dict[str, Any]) -> None:
        assert backend.in_use <= told.need.now

    backend.before = needed
    with contextlib.closing(Ledger(folder / "ledger.jsonl")) as ledger:
        trainer = Trainer(
            Sitting(resolved, "run", CheckpointStore(folder / "checkpoints", keep_last=3)),
            backend,
            Meter(ledger, resolved.spec.pricing),
            listeners=[told],
        )
        assert (await trainer.run()).finished
    return told.events


@pytest.fixture(autouse=True)
def _every_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "SHORTEST_SECONDS", 0.0)


async def test_a_schedule_is_known_beforehand(tmp_path: Path) -> None:
    assert await run(tmp_path) == [
        (0, [3]),
        (3, []),
        "sample",
        (0, []),  # nothing is known of the first gap
        "update",
        (2, []),
        "sample",
        (0, [4]),
        "update",
        (2, [4]),  # 2 until the round before is scored
        (4, []),
        "sample",
        (0, [2]),  # the last evaluation's requests
        "update",
        "final",
        (2, []),
    ]


@pytest.mark.parametrize("evaluated", [1, 100])
@pytest.mark.parametrize("scaler", ["nitro", "kungfu"])
async def test_an_unknown_number_is_expected_to_stay(tmp_path: Path, scaler: str, evaluated: int) -> None:
    scaling = {"scaler": scaler, "minActors": 2, "maxActors": 4, "initialActors": 3}
    evaluation = {"episodes": 1, "everyRounds": evaluated}
    events = await run(tmp_path, scaling=scaling, evaluation=evaluation)
    assert events[:3] == [(0, [3]), (3, []), "sample"]
    assert events[-2:] == ["final", (1, [])]
    if evaluated == 1:
        return
    gaps = [event for event in events if not isinstance(event, str) and event[0] == 0]
    assert len(gaps) == 4, "before the first round, and after each"


async def test_lanes_leave_no_gap(tmp_path: Path) -> None:
    scaling = {"scaler": "fixed", "minActors": 2, "maxActors": 4, "initialActors": 4}
    events = await run(tmp_path, algorithm=IMPACT, scaling=scaling)
    told = [event for event in events if not isinstance(event, str)]
    assert told == [(0, [4]), (4, []), (2, [])]
