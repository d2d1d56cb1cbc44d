"""A round of a run sampled again, once and several times over."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from learner_support import job
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_experiments.studies.probe import Probe
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.plans import RoundPlan


class RecordedDispatcher:
    """Answers each slot with a fragment that holds nothing but what it went on from."""

    def start_slots(self, plan: RoundPlan, slots: Iterable[int]) -> None:
        self.plan, self.slots = plan, list(slots)

    async def finish(self, plan: RoundPlan) -> Any:
        fragments = [
            Fragment({"slot": slot, "resumed": slot in plan.states}, plan.states.get(slot, {}))
            for slot in self.slots
        ]
        return SimpleNamespace(fragments=fragments)


class NoCache:
    async def publish_weights(self, version: int, blob: bytes) -> None:
        pass


def probe(dispatcher: RecordedDispatcher, states: dict[int, Any]) -> Probe:
    stubs: Any = {
        "policies": SimpleNamespace(
            weights=lambda: {DEFAULT_POLICY: PolicyWeights({}, {"policy.w": np.zeros(1, np.float32)})}
        ),
        "sampler": SimpleNamespace(cache=NoCache(), dispatcher=dispatcher),
        "compute": None,
    }
    return Probe(job=job(), round=7, actors=2, states=states, **stubs)


def test_every_sample_of_a_round_starts_from_the_state_of_the_run() -> None:
    dispatcher = RecordedDispatcher()
    states = {slot: {"state/steps": np.array([slot])} for slot in (0, 1, 3)}  # 2 was lost, 3 is not asked for
    found = asyncio.run(probe(dispatcher, states).samples(3, 2))
    assert dispatcher.slots == list(range(6)), "each has random numbers of its own"
    assert dispatcher.plan.min_actors == 6, "none may be missing"
    for sample in found:
        assert [fragment.slot for fragment in sample] == [0, 1, 2]
        assert [fragment.resumed for fragment in sample] == [True, True, False]
        assert [fragment.tensors for fragment in sample] == [states[0], states[1], {}]


def test_one_sample_is_the_first_of_several() -> None:
    dispatcher = RecordedDispatcher()
    (fragments,) = asyncio.run(probe(dispatcher, {}).samples(2, 1))
    assert asyncio.run(probe(dispatcher, {}).sample(2)) == fragments
    assert dispatcher.slots == [0, 1]
