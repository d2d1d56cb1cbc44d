"""Rollouts and evaluations as tasks of a pool of actors: requests, fragments, and when a round has failed."""

import asyncio
import contextlib
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import Request
from nitro_actor.protocol.state import bare
from nitro_api import JobSpec
from nitro_learner.backends.base import EVALUATION, ROLLOUT, Ack, ActorBackend, causes, evidence
from nitro_learner.backends.cache.base import Cache
from nitro_learner.backends.tasks.counts import Counts
from nitro_learner.backends.tasks.group import TaskGroup
from nitro_learner.backends.tasks.pool import Deadlines, TaskPool
from nitro_learner.backends.tasks.task import Task, Work
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, SlotRequest
from nitro_learner.sampling.plans import (
    EvaluationPlan,
    EvaluationResult,
    RoundFailed,
    RoundPlan,
    RoundResult,
    State,
)
from nitro_learner.sampling.seeds import evaluation_seed, slot_seed

_ABSENCE_SECONDS = 60.0
"""How long the learner may be away from Redis while a list waits for it, beside a request's timeout: when
both are over, the deadline has passed and what the list held is asked for again.

Nobody reads what an actor adds after its round has ended. Such fragments fill Redis until they expire.
"""

_CACHE_WAIT_SECONDS = 15.0
"""How long a request waits for a cache that its actor could not reach."""

Fanout = TaskGroup[Fragment]
"""The slots of a round or evaluation."""


@dataclass
class _Round:
    plan: RoundPlan
    expect: Expectation
    fanout: Fanout
    first_start: float
    last_start: float


class Dispatcher:
    """Run rounds and evaluations on a backend. The event loop must stay free meanwhile (compute belongs in a
    thread)::

    dispatcher = Dispatcher(
        backend,
        cache,
        environment,
        envs=8,
        optional_tensors=spec.algorithm.tensors,
        memory=spec.network.memory_size,
        timeout_seconds=60.0,
        deadline_seconds=None,
    )
    dispatcher.start_slots(plan, range(plan.min_actors))        # before I_k is known, while Lanczos runs
    dispatcher.start_slots(plan, range(plan.min_actors, actors))
    result = await dispatcher.finish(plan)
    evaluation = asyncio.create_task(dispatcher.evaluate(EvaluationPlan(...)))
    """

    def __init__(
        self,
        backend: ActorBackend,
        cache: Cache,
        environment: DescribedEnvironment,
        *,
        envs: int,
        optional_tensors: Iterable[str],
        timeout_seconds: float,
        deadline_seconds: float | None,
        memory: int = 0,
    ) -> None:
        """``environment`` is that of the actors.

        ``optional_tensors`` are those that the algorithm wants in a fragment, as its record says.
        ``memory`` is the numbers that the policies remember.
        ``deadline_seconds`` None means max(``timeout_seconds`` + the backend's grace, 3 x median round).
        """
        self._backend = backend
        self._cache = cache
        self._timeout = timeout_seconds
        self._environment = environment
        self._envs = envs
        self._optional_tensors = frozenset(optional_tensors)
        self._memory = memory
        self._list_seconds = math.ceil(timeout_seconds + _ABSENCE_SECONDS)
        self._pool = TaskPool(
            backend,
            cache,
            timeout_seconds=timeout_seconds,
            deadline_seconds=deadline_seconds,
            noun="slots",
        )
        self._rounds: dict[int, _Round] = {}
        self._evaluations = itertools.count()

    @property
    def pending(self) -> int:
        """Slots, of rounds and evaluations, that were started and have no fragment yet."""
        return self._pool.pending

    @property
    def deadlines(self) -> Deadlines:
        """When rounds and evaluations stop waiting."""
        return self._pool.deadlines

    def start_slots(
        self,
        plan: RoundPlan,
        slots: Iterable[int],
        on_slot_done: Callable[[Task[Fragment]], None] = lambda _: None,
    ) -> Fanout:
        """Start sampling ``slots`` and return at once; more slots of the same plan may be added later.

        The weights of ``plan.weights_version`` must have been published. ``on_slot_done``, of the first call,
        is called for every slot; see TaskGroup, which an off-policy round continues with.
        """
        running = self._rounds.get(plan.round)
        if running is None:
            running = self._rounds[plan.round] = self._begin(plan, on_slot_done)
        assert running.plan is plan, f"round {plan.round} was started by another plan"
        wanted = list(slots)
        for slot in wanted:
            assert slot not in running.expect.slots, f"slot {slot} was started already"
            seed = slot_seed(plan.seed, plan.round, slot)
            running.expect.slots[slot] = SlotRequest(seed, resumed=slot in plan.states)
        running.last_start = asyncio.get_running_loop().time()
        running.fanout.submit(wanted)
        return running.fanout

    async def finish(self, plan: RoundPlan) -> RoundResult:
        """Wait for the slots that were started.

        Continue without some of them when, after two deadlines, at least 80 % and ``min_actors`` are there.
        Raises RoundFailed, FatalError or CacheError.
        """
        running = self._rounds[plan.round]
        fanout = running.fanout
        try:
            await self._pool.settle(fanout, running.last_start)
            present = fanout.results()
            if 5 * len(present) < 4 * len(fanout.tasks) or len(present) < plan.min_actors:
                raise _failed(f"round {plan.round}", fanout, f"80 % and {plan.min_actors} are needed")
            stats = self._pool.stats(fanout, running.first_start)
            self.deadlines.learn(stats.seconds["total"], len(fanout.tasks))
            return RoundResult(present, sorted(slot.index for slot in fanout.missing()), stats)
        finally:
            await self.abandon(plan)

    async def evaluate(self, plan: EvaluationPlan) -> EvaluationResult:
        """Run an evaluation beside the rounds. Raises RoundFailed if an episode is lost, or FatalError."""
        expect = Expectation(
            "evaluate",
            plan.run,
            plan.weights_version,
            plan.weights_version,
            self._environment,
            kwargs=plan.kwargs,
        )
        version = plan.weights_version if plan.episodes_of is None else plan.episodes_of
        for slot in range(plan.slots):
            episodes = plan.episodes // plan.slots + (slot < plan.episodes % plan.slots)
            seed = evaluation_seed(plan.seed, version, slot)
            expect.slots[slot] = SlotRequest(seed, episodes=episodes)
        # A list of its own: two evaluations of the same weights at once would take each other's fragments.
        key = f"{self._cache.evaluation_key(plan.weights_version)}:{next(self._evaluations)}"
        fanout = self._fan_out(key, expect, EVALUATION, lambda _: {}, plan.max_steps, lambda _: None)
        started = asyncio.get_running_loop().time()
        try:
            fanout.submit(expect.slots)
            await self._pool.settle(fanout, started)
            if fanout.missing():
                needed = "all are needed; a request plays whole episodes within spec.actor.timeoutSeconds"
                raise _failed(f"evaluation of weights {plan.weights_version}", fanout, needed)
            played = fanout.results()
            agents = self._environment.agents
            own = [fragment.returns_of(agents) for fragment in played]
            return EvaluationResult(
                plan.weights_version,
                np.concatenate([fragment.team_returns for fragment in played]),
                np.concatenate([fragment.tensors["episode_lengths"] for fragment in played]),
                self._pool.stats(fanout, started),
                {agent: np.concatenate([returns[agent] for returns in own]) for agent in agents},
                self._environment.classes,
            )
        finally:
            await self._pool.close(fanout)

    def take_unused(self) -> Counts:
        """Return what rounds and evaluations without a result have taken since the last call: those that
        failed or were cancelled. Their invocations are billed all the same."""
        return self._pool.take_unused()

    async def abandon(self, plan: RoundPlan) -> None:
        """Cancel a round, if it runs."""
        running = self._rounds.pop(plan.round, None)
        if running is not None:
            await self._pool.close(running.fanout)

    async def close(self) -> None:
        """Cancel every round and evaluation."""
        self._rounds.clear()
        await self._pool.close_all()

    def _begin(self, plan: RoundPlan, on_slot_done: Callable[[Task[Fragment]], None]) -> _Round:
        expect = Expectation(
            "rollout",
            plan.run,
            plan.round,
            plan.weights_version,
            self._environment,
            steps=plan.steps,
            envs=self._envs,
            optional_tensors=self._optional_tensors,
            memory=self._memory,
        )
        key = self._cache.round_key(plan.round, plan.weights_version) + plan.sitting
        fanout = self._fan_out(key, expect, ROLLOUT, lambda slot: plan.states.get(slot, {}), 0, on_slot_done)
        now = asyncio.get_running_loop().time()
        return _Round(plan, expect, fanout, first_start=now, last_start=now)

    def _fan_out(
        self,
        key: str,
        expect: Expectation,
        priority: int,
        state: Callable[[int], State],
        max_steps: int,
        on_slot_done: Callable[[Task[Fragment]], None],
    ) -> Fanout:
        weights_key = self._cache.weights_key(expect.weights_version)

        async def ask(slot: int, attempt: int) -> Ack:
            asked = expect.slots[slot]
            request = Request(
                kind=expect.kind,
                run=expect.run,
                round=expect.round,
                slot=slot,
                attempt=attempt,
                seed=asked.seed,
                weights_version=expect.weights_version,
                weights_key=weights_key,
                result_key=key,
                ttl=self._list_seconds,
                steps=expect.steps,
                optional_tensors=expect.optional_tensors,
                episodes=asked.episodes,
                max_steps=max_steps,
                kwargs=expect.kwargs,
                state=bare(state(slot)),
            )
            return await self._backend.invoke(request, self._timeout, priority=priority)

        def decode(message: bytes) -> tuple[int, Fragment]:
            fragment = fragments.read(message, expect)
            return fragment.slot, fragment

        async def recover(reason: str) -> None:
            if reason == "redis_unreachable":
                await self._cache.wait_reachable(_CACHE_WAIT_SECONDS)
            if reason in ("redis_unreachable", "weights_missing"):
                await self._cache.restore_weights(expect.weights_version)

        return self._pool.open(Work(key, ask, decode, recover), on_task_done=on_slot_done)


def _failed(what: str, fanout: Fanout, needed: str) -> RoundFailed:
    missing = fanout.missing()
    troubles = [slot.trouble for slot in missing]
    proof = evidence(troubles)
    return RoundFailed(
        f"{what} failed: {causes(troubles)}\n{len(missing)} of {len(fanout.tasks)} slots did not come back "
        f"although they were asked for again; {needed}.",
        resumable=not proof.environment and not all(slot.hopeless for slot in missing),
        evidence=proof,
    )


@dataclass(frozen=True)
class ActorSampler:
    """A started backend, its cache, and the dispatcher that has the actors sample::

    sampler = await ActorSampler.open(stack, spec, run, backend)
    """

    backend: ActorBackend
    environment: DescribedEnvironment
    cache: Cache
    dispatcher: Dispatcher

    @classmethod
    async def open(
        cls, stack: contextlib.AsyncExitStack, spec: JobSpec, run: str, backend: ActorBackend
    ) -> Self:
        """Start the actors of a resolved job, and make cache and dispatcher; `stack` closes them all.

        Raises:
            BackendError: see `ActorBackend.start`.
        """
        stack.push_async_callback(backend.close)
        environment = await backend.start()
        cache = backend.open_cache(run)
        stack.push_async_callback(cache.close)
        dispatcher = Dispatcher(
            backend,
            cache,
            environment,
            envs=spec.environment.envs_per_actor,
            optional_tensors=spec.algorithm.tensors,
            memory=spec.network.memory_size,
            timeout_seconds=spec.actor.timeout_seconds,
            deadline_seconds=spec.actor.round_deadline_seconds,
        )
        stack.push_async_callback(dispatcher.close)
        return cls(backend, environment, cache, dispatcher)
