"""Actors of this machine for a training loop in a script or a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from torch import nn

from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_api import JobSpec
from nitro_learner.algorithms.agents.teams import make_teams
from nitro_learner.algorithms.own.collecting import CollectedBatch, LoopPolicy
from nitro_learner.backends.local import LocalBackend
from nitro_learner.networks.distributions import Distribution
from nitro_learner.networks.module import ActorCriticModule
from nitro_learner.sampling.dispatch import ActorSampler
from nitro_learner.sampling.fragments import end_state
from nitro_learner.sampling.plans import RoundPlan, State
from nitro_learner.studies.resolved_job import resolved_job
from nitro_learner.training.failures import as_training_failure

T = TypeVar("T")


class Sampler:
    """Local processes that play an environment with a policy of a script's own.

        with nitro.Sampler("CartPole-v1", actors=4) as sampler:
            network = sampler.network()
            for _ in range(20):
                batch = sampler.collect(network)

    It is what a job's training loop gets (docs/own-parts.md), without a job. The actors start with the `with`
    block and end with it. Equal calls give equal batches, to the bit.

    Attributes:
        distribution: the family of the actions: log_prob(parameters, actions), entropy(parameters) and
            kl(old, new), each [n].
    """

    distribution: Distribution

    def __init__(
        self,
        environment: str | Mapping[str, Any],
        *,
        actors: int = 4,
        network: Mapping[str, Any] | None = None,
        processes: int | None = None,
        seed: int = 0,
    ) -> None:
        """
        Args:
            environment: its id, or a mapping as spec.environment, such as {"entryPoint": "line:Line",
                "rolloutLength": 128, "envsPerActor": 4}.
            actors: rollouts of a batch, unless `collect` says otherwise.
            network: a mapping as spec.network, for `network`.
            processes: that the actors share; as many as the machine has cores by default.
            seed: of the environments and of the network.

        Raises:
            JobInvalid: lists every mistake.
        """
        named = {"id": environment} if isinstance(environment, str) else dict(environment)
        scaling = {"scaler": "fixed", "minActors": actors, "maxActors": actors, "initialActors": actors}
        backend = {"type": "Local", **({"local": {"processes": processes}} if processes else {})}
        job = {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": "sampler"},
            "spec": {"environment": named, "scaling": scaling, "backend": backend, "seed": seed}
            | ({"network": dict(network)} if network else {}),
        }
        self._spec: JobSpec = resolved_job(job, []).spec
        self._actors, self._round = actors, 0
        self._states: dict[int, State] = {}
        self._run = uuid.uuid4().hex
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack = contextlib.AsyncExitStack()

    def __enter__(self) -> Self:
        """Start the actors.

        Raises:
            TrainingFailed: the environment cannot be made.
            JobInvalid: it has several agents.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nitro-sampler", daemon=True)
        self._thread.start()
        try:
            self._sampler = self._wait(self._open())
            (team,) = make_teams(self._spec, self._sampler.environment)
            self._policy = LoopPolicy(team)
        except BaseException:
            self.close()
            raise
        self.distribution = self._policy.distribution
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the actors. Closing again does nothing."""
        if self._loop is None:
            return
        try:
            self._wait(self._stack.aclose())
        finally:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def network(self) -> ActorCriticModule:
        """A new policy and critic: `network.policy(observations)` gives the distributions' parameters [n, P],
        `network.critic(observations)` the values [n, 1]."""
        return self._policy.network()

    def collect(self, policy: nn.Module, *, actors: int | None = None) -> CollectedBatch:
        """Have the actors play a policy, and wait for what they sampled. Episodes go on from batch to batch.

        Args:
            policy: what `network()` made, the policy of it, or a module of your own, which gives the
                distributions' parameters: logits, or mean and log-std. It is played in evaluation mode.
            actors: rollouts of this batch.

        Raises:
            TypeError: the policy is no module.
            Unfit: actors cannot play it; the message says why, where, and what to do.
            TrainingFailed: the environment failed, or fewer than 80 % of the rollouts came back.
        """
        weights = self._policy.weights(policy)
        return self._wait(self._collect(weights, self._actors if actors is None else actors))

    async def _open(self) -> ActorSampler:
        with as_training_failure():
            backend = LocalBackend(self._spec, self._run)
            return await ActorSampler.open(self._stack, self._spec, self._run, backend)

    async def _collect(self, weights: PolicyWeights, actors: int) -> CollectedBatch:
        self._round += 1
        container = WeightsContainer.of_one_agent(self._run, self._round, weights)
        plan = RoundPlan(
            run=self._run,
            seed=self._spec.seed,
            round=self._round,
            weights_version=self._round,
            steps=self._spec.environment.rollout_length,
            min_actors=1,
            states=dict(self._states),
        )
        with as_training_failure():
            await self._sampler.cache.publish_weights(self._round, container.encode())
            self._sampler.dispatcher.start_slots(plan, range(actors))
            result = await self._sampler.dispatcher.finish(plan)
        if self._spec.environment.resume_episodes:
            for fragment in result.fragments:
                if state := end_state(fragment):
                    self._states[fragment.slot] = {name: np.array(value) for name, value in state.items()}
        return CollectedBatch.of(result.fragments)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in the sampler's thread, where its event loop is."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the sampler has no actors; use it in a with block")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
