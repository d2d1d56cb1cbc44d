"""A run opened at one of its rounds, with live actors. It repeats the round, and can measure more.

async with opened(folder, job, 12) as probe:
    result = await probe.update(await probe.sample(probe.actors))      # round 12 again, to the bit
    returns = await probe.returns(tensors, episodes=2)                 # of a policy with other weights
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights, WeightsContainer
from nitro_api import ResolvedJob
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.checkpoints.store import CheckpointStore, load
from nitro_learner.data.batch import Fragment
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.sampling.dispatch import ActorSampler
from nitro_learner.sampling.evaluation import MAX_STEPS
from nitro_learner.sampling.plans import EvaluationPlan, RoundPlan
from nitro_learner.training.builder import make_backend
from nitro_learner.training.compute import Compute
from nitro_learner.training.device import torch_device

_RUN = "probe"


@dataclass
class Probe:
    """The run just before round `round`.

    Attributes:
        actors: I_round, the number of actors that the run had in it; for the first round initialActors.
        policies: as they were after the round before.
        compute: runs long computations.
        sampler: the actors at work.
    """

    job: ResolvedJob
    round: int
    actors: int
    policies: PolicySet
    compute: Compute
    states: Mapping[int, Any]
    sampler: ActorSampler

    def __post_init__(self) -> None:
        # Higher versions are weights that only this probe has.
        self._version = self.round

    async def sample(self, slots: int) -> list[Fragment]:
        """Sample the first `slots` slots of the round. Those that the run had are the same, to the bit.

        Raises:
            RoundFailed, BackendError, CacheError
        """
        return (await self.samples(slots, 1))[0]

    async def samples(self, slots: int, times: int) -> list[list[Fragment]]:
        """Sample the round `times` times.

        All samples begin where the run's slots stood, as when a round is sampled again. They draw different
        actions. The first sample is the run's own.

        Raises:
            RoundFailed, BackendError, CacheError
        """
        await self._publish(self.round - 1, self.policies.weights()[DEFAULT_POLICY])
        plan = RoundPlan(
            run=_RUN,
            seed=self.job.spec.seed,
            round=self.round,
            weights_version=self.round - 1,
            steps=self.job.spec.environment.rollout_length,
            min_actors=slots * times,
            states={
                index * slots + slot: self.states[slot]
                for index in range(times)
                for slot in range(slots)
                if slot in self.states
            },
        )
        self.sampler.dispatcher.start_slots(plan, range(slots * times))
        fragments = (await self.sampler.dispatcher.finish(plan)).fragments
        return [
            [
                replace(fragment, meta={**fragment.meta, "slot": slot})
                for slot, fragment in enumerate(fragments[index * slots : (index + 1) * slots])
            ]
            for index in range(times)
        ]

    async def update(self, fragments: list[Fragment]) -> UpdateResult:
        """Do the round's update: the policy is then as it was after the round.

        An off-policy algorithm is an exception, because its rounds cannot be repeated exactly. Here it learns
        from each fragment once, in order, and replays nothing.
        """
        results = await self.compute.update(_learn, self.policies, fragments, self.round)
        return results[DEFAULT_POLICY]

    async def returns(self, tensors: Mapping[str, NDArray[Any]], episodes: int) -> NDArray[np.float64]:
        """Episode returns, f64 [episodes], of the policy with other weights, by mean actions.
        Every call plays the same episodes.

        Raises:
            RoundFailed, BackendError, CacheError
        """
        self._version += 1
        played = replace(self.policies.weights()[DEFAULT_POLICY], tensors=tensors)
        await self._publish(self._version, played)
        plan = EvaluationPlan(
            run=_RUN,
            seed=self.job.spec.seed,
            weights_version=self._version,
            episodes=episodes,
            max_steps=MAX_STEPS,
            slots=min(episodes, self.sampler.backend.limit),
            episodes_of=self.round,
        )
        return (await self.sampler.dispatcher.evaluate(plan)).returns

    async def _publish(self, version: int, weights: PolicyWeights) -> None:
        container = WeightsContainer.of_one_agent(_RUN, version, weights)
        await self.sampler.cache.publish_weights(version, container.encode())


def _learn(policies: PolicySet, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
    if policies.feeding == "arrivals":
        policies.take(fragments)
        return policies.end_round(round)
    return policies.update(fragments, round)


def repeatable(folder: RunDir) -> list[int]:
    """Rounds whose checkpoint and whose predecessor's checkpoint are kept, in order."""
    kept = CheckpointStore(folder.checkpoints, keep_last=1).rounds()
    return [number for number in kept if number == 1 or number - 1 in kept]


@contextlib.asynccontextmanager
async def opened(folder: RunDir, job: ResolvedJob, round: int) -> AsyncIterator[Probe]:
    """The run in `folder` just before its round `round` (from 1). Nothing in the folder is changed.

    Raises:
        RunDirError: the checkpoint of the round before is gone, or the run has several agents.
        CheckpointError: it is damaged.
        BackendError: the actors do not start.
    """
    if job.spec.algorithm.record.agents == "several":
        raise RunDirError(
            f"{folder.path}: a run of several agents, whose rounds cannot be repeated. Choose a run of one "
            "agent."
        )
    store = CheckpointStore(folder.checkpoints, keep_last=1)
    if round > 1 and round - 1 not in store.rounds():
        there = ", ".join(map(str, repeatable(folder))) or "none"
        raise RunDirError(
            f"{folder.path}: round {round} needs the checkpoint after round {round - 1}, which is not kept. "
            f"Rounds that can be repeated: {there}; --set spec.learner.checkpoint.keepLast=1000 keeps all."
        )
    checkpoint = load(store.path(round - 1)) if round > 1 else None
    async with contextlib.AsyncExitStack() as stack:
        compute = stack.enter_context(Compute())
        sampler = await ActorSampler.open(stack, job.spec, _RUN, make_backend(job.spec, _RUN))
        policies = registry.make_policies(
            job.spec, sampler.environment, torch_device(job.spec.learner.device)
        )
        training: Mapping[str, Any] = {"actors": job.spec.scaling.initial_actors, "end_states": {}}
        if checkpoint:
            policies.load_state_dict(checkpoint.state["policies"])
            training = checkpoint.state["training"]
        policies.begin_round(round, job.spec.stop.rounds)
        yield Probe(
            job=job,
            round=round,
            actors=training["actors"],
            policies=policies,
            compute=compute,
            states=training["end_states"],
            sampler=sampler,
        )
