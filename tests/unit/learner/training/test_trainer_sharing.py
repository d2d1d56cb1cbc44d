"""The training loop around toggles of sharing, with the production cache, actor and environment in this
process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory_backend import MemoryBackend
from nitro_actor.protocol.weights import WeightsContainer
from nitro_api import load_job, resolve
from nitro_api.costs.ledger import Ledger
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.checkpoints.store import CheckpointStore, pack
from nitro_learner.training import builder
from nitro_learner.training.costs import Meter
from nitro_learner.training.round_report import Listener, Outcome, RoundReport
from nitro_learner.training.sharing.toggles import Regrouping
from nitro_learner.training.trainer import Trainer
from train_support import job

pytestmark = pytest.mark.slow

SPREAD: dict[str, Any] = {
    "environment": {"id": "mpe2/simple_spread_v3", "rolloutLength": 50, "envsPerActor": 2},
    "algorithm": {"name": "ippo", "hyperparameters": {"epochs": 1}},
    "network": {"hiddenSizes": [8]},
    # With this window every slope is below 1: sharing toggles whenever the window is full.
    "sharing": {"mode": "dynamic", "window": 3, "slope": 1},
    "scaling": {"scaler": "marless", "minActors": 2, "maxActors": 3},
    "evaluation": {"episodes": 1, "everyRounds": 100},
}


class Recorder(Listener):
    """Records rounds and toggles in their order; interrupts the trainer after a round, or once the toggle
    after it is carried out, if told to."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.reports: list[RoundReport] = []
        self.toggles: list[Regrouping] = []
        self.trainer: Trainer | None = None
        self.last = self.last_toggle = 0

    def on_round_done(self, report: RoundReport) -> None:
        self.events.append(("round done", report.round))
        self.reports.append(report)
        if self.trainer and report.round == self.last:
            self.trainer.interrupt()

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        self.events.append(("shared" if regrouping.shared else "separate", regrouping.round))
        self.toggles.append(regrouping)
        if self.trainer and regrouping.round == self.last_toggle:
            self.trainer.interrupt()


class Sitting:
    """A session of training in a folder, from its newest checkpoint on, until the end or after a round."""

    def __init__(self, folder: Path, rounds: int = 7, **changes: Any) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.changes = {"stop": {"rounds": rounds}} | changes
        self.listener = Recorder()
        self.published: dict[int, dict[str, str]] = {}
        """Who plays which policy, by the version of the weights."""
        self.payloads: dict[int, bytes] = {}
        """All that actors get, by the version of the weights."""
        self.store = CheckpointStore(folder / "checkpoints", keep_last=100)

    async def run(self, until: int = 0, *, until_toggle: int = 0) -> Outcome:
        resolved = resolve(load_job(job(**SPREAD | self.changes)))
        store, published, payloads = self.store, self.published, self.payloads

        class Listening(MemoryCache):
            async def publish_weights(self, version: int, payload: bytes) -> str:
                payloads[version] = payload
                published[version] = dict(WeightsContainer.decode(payload).agents)
                return await super().publish_weights(version, payload)

        self.backend = MemoryBackend(resolved.spec)
        self.backend.new_cache = Listening
        with Ledger(self.folder / "ledger.jsonl") as ledger:
            trainer = Trainer(
                builder.Sitting(resolved, "run", store, store.latest()),
                self.backend,
                Meter(ledger, resolved.spec.pricing),
                listeners=[self.listener],
            )
            self.listener.trainer, self.listener.last = trainer, until
            self.listener.last_toggle = until_toggle
            return await trainer.run()


def learned(reports: list[RoundReport]) -> list[tuple[Any, ...]]:
    """What tells two runs apart, and is equal to the bit where they are equal."""
    return [
        (one.round, one.actors, one.reward_round, one.kl, one.value_loss, one.convexity_ratio)
        for one in reports
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sitting:
    sitting = Sitting(tmp_path_factory.mktemp("whole"))
    assert asyncio.run(sitting.run()).finished
    return sitting


async def test_a_toggle_is_an_event_between_two_rounds_and_a_version_of_the_weights(whole: Sitting) -> None:
    done = {round: ("round done", round) for round in range(1, 8)}
    assert whole.listener.events == [
        *(done[1], done[2], done[3], ("shared", 3)),
        *(done[4], done[5], done[6], ("separate", 6)),
        done[7],
    ]
    rollouts = [request for request in whole.backend.requests if request["kind"] == "rollout"]
    versions = [{one["weights"]["version"] for one in rollouts if one["round"] == k} for k in range(1, 8)]
    assert versions == [{0}, {1}, {2}, {4}, {5}, {6}, {8}]
    told = [one.counters.weights_version for one in whole.listener.reports]
    assert told == [1, 2, 3, 5, 6, 7, 9], "what the round has made"
    assert [toggle.version for toggle in whole.listener.toggles] == [4, 8]


async def test_rounds_after_a_toggle_are_played_by_its_groups(whole: Sitting) -> None:
    shared, separate = whole.listener.toggles
    assert sorted(map(len, shared.groups.values())) == [1, 2]
    assert set(shared.bases.values()) <= {"convexity ratio", "return"}
    for version, toggle in ((4, shared), (8, separate)):
        assert whole.published[version] == {
            agent: policy for policy, agents in toggle.groups.items() for agent in agents
        }
    for report, toggle in ((whole.listener.reports[3], shared), (whole.listener.reports[6], separate)):
        assert {name: own.agents for name, own in report.policies.items()} == toggle.groups


@pytest.mark.parametrize("until", [3, 4])
async def test_a_run_interrupted_around_a_toggle_goes_on_exactly(
    tmp_path: Path, whole: Sitting, until: int
) -> None:
    first, second = Sitting(tmp_path), Sitting(tmp_path)
    assert not (await first.run(until)).finished
    assert (await second.run()).finished
    assert first.listener.events + second.listener.events == whole.listener.events
    assert learned(first.listener.reports + second.listener.reports) == learned(whole.listener.reports)
    for ours, theirs in zip(
        first.listener.toggles + second.listener.toggles, whole.listener.toggles, strict=True
    ):
        assert (ours.groups, ours.bases, ours.reason) == (theirs.groups, theirs.bases, theirs.reason)


async def test_a_run_interrupted_once_a_toggle_is_carried_out_keeps_the_policies_that_sampled(
    tmp_path: Path, whole: Sitting
) -> None:
    # A checkpoint of round 3 is not due, and no round follows that learns with the new groups.
    rarely: dict[str, Any] = {"learner": {"checkpoint": {"everyRounds": 100}}}
    first, second = Sitting(tmp_path, **rarely), Sitting(tmp_path, **rarely)
    assert not (await first.run(until_toggle=3)).finished
    assert first.published[4] == whole.published[4], "they were published"
    saved = first.store.latest()
    assert saved
    assert saved.state["played"]["agents"] == whole.published[0], "each agent plays its own policy"
    assert saved.state["played"]["version"] == 3
    assert (await second.run()).finished
    toggles = [event for event in whole.listener.events if event[0] == "shared"]
    assert second.listener.events[:1] == toggles, "it is said again"
    assert first.listener.events[:-1] + second.listener.events == whole.listener.events
    assert learned(first.listener.reports + second.listener.reports) == learned(whole.listener.reports)
    assert first.payloads | second.payloads == whole.payloads


async def test_a_run_that_ends_with_a_decision_to_toggle_has_the_policies_that_it_trained(
    tmp_path: Path,
) -> None:
    ends, never = Sitting(tmp_path / "ends", rounds=3), Sitting(tmp_path / "never", rounds=3, sharing={})
    outcome, expected = await ends.run(), await never.run()
    assert outcome.finished
    assert ends.listener.toggles == []
    assert ends.payloads == never.payloads
    assert set(ends.payloads) == {0, 1, 2, 3}
    assert outcome.evaluation == expected.evaluation
    saved, other = ends.store.latest(), never.store.latest()
    assert saved
    assert other
    assert saved.state["played"]["agents"] == other.state["played"]["agents"]
    assert pack(3, saved.state["played"]) == pack(3, other.state["played"])
    assert pack(3, saved.state["policies"]) == pack(3, other.state["policies"])


async def test_a_run_that_ended_with_a_decision_to_toggle_and_is_extended_equals_one_that_never_ended(
    tmp_path: Path, whole: Sitting
) -> None:
    first, second = Sitting(tmp_path, rounds=3), Sitting(tmp_path)
    assert (await first.run()).finished
    assert (await second.run()).finished
    assert first.listener.events + second.listener.events == whole.listener.events
    assert learned(first.listener.reports + second.listener.reports) == learned(whole.listener.reports)
    # Version 3 was only evaluated.
    assert first.payloads | second.payloads == whole.payloads | {3: first.payloads[3]}
    assert [toggle.sentence for toggle in second.listener.toggles] == [
        toggle.sentence for toggle in whole.listener.toggles
    ]
