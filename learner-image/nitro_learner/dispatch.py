"""Fans a round out to actors and gathers its fragments: retries, deadlines, one fragment per slot."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_learner.backends.base import EVALUATION, ROLLOUT, ActorBackend
from nitro_learner.cache import Cache
from nitro_learner.counts import Counts
from nitro_learner.deadlines import Deadlines
from nitro_learner.fanout import Fanout, Slot
from nitro_learner.fragment import Expectation, SlotRequest
from nitro_learner.plans import (
    DispatchStats,
    EvaluationPlan,
    EvaluationResult,
    RoundFailed,
    RoundPlan,
    RoundResult,
    State,
)
from nitro_learner.seeds import evaluation_seed, slot_seed

log = logging.getLogger(__name__)

_RESULT_TTL_SECONDS = 3600


class Dispatcher:
    """Runs rounds on a backend. The event loop must stay free while it does (compute belongs in a thread)::

    dispatcher = Dispatcher(backend, cache, environment, envs=8, timeout_seconds=60.0, deadline_seconds=None)
    dispatcher.start_slots(plan, range(plan.min_actors))        # before I_k is known, while Lanczos runs
    dispatcher.start_slots(plan, range(plan.min_actors, actors))
    result = await dispatcher.finish(plan)
    evaluation = asyncio.create_task(dispatcher.evaluate(EvaluationPlan(...)))
    """

    def __init__(
        self,
        backend: ActorBackend,
        cache: Cache,
        environment: Mapping[str, Any],
        *,
        envs: int,
        timeout_seconds: float,
        deadline_seconds: float | None,
    ) -> None:
        """``environment`` is the EnvironmentSpec.

        ``deadline_seconds`` None means max(``timeout_seconds``, 3 x median round).
        """
        self._backend = backend
        self._cache = cache
        self._environment = environment
        self._envs = envs
        self._timeout = timeout_seconds
        self.deadlines = Deadlines(
            timeout_seconds,
            deadline_seconds,
            at_once=lambda: backend.at_once,
            pending=lambda: self.pending,
        )
        self._rounds: dict[int, _Round] = {}
        self._fanouts: set[Fanout] = set()
        self._unused = Counts()

    @property
    def pending(self) -> int:
        """Slots, of rounds and evaluations, that were started and have no fragment yet."""
        return sum(fanout.pending for fanout in self._fanouts)

    def start_slots(
        self, plan: RoundPlan, slots: Iterable[int], told: Callable[[Slot], None] = lambda _: None
    ) -> Fanout:
        """Starts sampling ``slots`` and returns at once; more slots of the same plan may be added later.

        The weights of ``plan.weights_version`` must have been published. ``told``, of the first call, hears
        of every slot; see Fanout, which an off-policy round goes on with.
        """
        running = self._rounds.get(plan.round)
        if running is None:
            running = self._rounds[plan.round] = self._begin(plan, told)
        assert running.plan is plan, f"round {plan.round} was started by another plan"
        wanted = list(slots)
        for slot in wanted:
            assert slot not in running.expect.slots, f"slot {slot} was started already"
            seed = slot_seed(plan.seed, plan.round, slot)
            running.expect.slots[slot] = SlotRequest(seed, resumed=slot in plan.states)
        running.last_start = asyncio.get_running_loop().time()
        running.fanout.start(wanted)
        return running.fanout

    async def finish(self, plan: RoundPlan) -> RoundResult:
        """Waits for the slots that were started.

        Goes on without some of them when, after two deadlines, at least 80 % and ``min_actors`` are there.
        Raises RoundFailed, FatalError or CacheError.
        """
        running = self._rounds[plan.round]
        fanout = running.fanout
        try:
            await self._settle_twice(fanout, running.last_start)
            present = [slot.fragment for _, slot in sorted(fanout.slots.items()) if slot.fragment]
            if 5 * len(present) < 4 * len(fanout.slots) or len(present) < plan.min_actors:
                raise _failed(f"round {plan.round}", fanout, f"80 % and {plan.min_actors} are needed")
            stats = self._stats(fanout, running.first_start)
            self.deadlines.learn(stats.seconds["total"], len(fanout.slots))
            return RoundResult(present, sorted(slot.index for slot in fanout.missing()), stats)
        finally:
            await self.abandon(plan)

    async def evaluate(self, plan: EvaluationPlan) -> EvaluationResult:
        """Runs an evaluation beside the rounds. Raises RoundFailed if an episode is lost, or FatalError."""
        expect = Expectation(
            "evaluate", plan.run, plan.weights_version, plan.weights_version, self._environment
        )
        version = plan.weights_version if plan.episodes_of is None else plan.episodes_of
        for slot in range(plan.slots):
            episodes = plan.episodes // plan.slots + (slot < plan.episodes % plan.slots)
            seed = evaluation_seed(plan.seed, version, slot)
            expect.slots[slot] = SlotRequest(seed, episodes=episodes)
        key = self._cache.evaluation_key(plan.weights_version)
        extra = {"maxSteps": plan.max_steps}
        fanout = self._fan_out(key, expect, EVALUATION, lambda _: {}, extra, lambda _: None)
        started = asyncio.get_running_loop().time()
        try:
            fanout.start(expect.slots)
            await self._settle_twice(fanout, started)
            if fanout.missing():
                raise _failed(f"evaluation of weights {plan.weights_version}", fanout, "all are needed")
            tensors = [slot.fragment.tensors for _, slot in sorted(fanout.slots.items()) if slot.fragment]
            return EvaluationResult(
                plan.weights_version,
                np.concatenate([item["episode_returns"] for item in tensors]),
                np.concatenate([item["episode_lengths"] for item in tensors]),
                self._stats(fanout, started),
            )
        finally:
            await self._end(fanout)

    def take_unused(self) -> Counts:
        """What rounds and evaluations without a result have taken since the last call: those that failed or
        were broken off. Their invocations are billed all the same."""
        counts, self._unused = self._unused, Counts()
        return counts

    async def abandon(self, plan: RoundPlan) -> None:
        """Breaks off a round, if it is under way."""
        running = self._rounds.pop(plan.round, None)
        if running is not None:
            await self._end(running.fanout)

    async def close(self) -> None:
        """Breaks off everything under way."""
        self._rounds.clear()
        for fanout in list(self._fanouts):
            await self._end(fanout)

    def _begin(self, plan: RoundPlan, told: Callable[[Slot], None]) -> "_Round":
        expect = Expectation(
            "rollout",
            plan.run,
            plan.round,
            plan.weights_version,
            self._environment,
            steps=plan.steps,
            envs=self._envs,
        )
        key = self._cache.round_key(plan.round, plan.weights_version) + plan.sitting
        fanout = self._fan_out(key, expect, ROLLOUT, lambda slot: plan.states.get(slot, {}), {}, told)
        now = asyncio.get_running_loop().time()
        return _Round(plan, expect, fanout, first_start=now, last_start=now)

    def _fan_out(
        self,
        key: str,
        expect: Expectation,
        priority: int,
        state: Callable[[int], State],
        extra: Mapping[str, Any],
        told: Callable[[Slot], None],
    ) -> Fanout:
        weights = {"version": expect.weights_version, "key": self._cache.weights_key(expect.weights_version)}

        def build(slot: int, attempt: int) -> bytes:
            request = expect.slots[slot]
            meta = {
                "protocol": PROTOCOL_VERSION,
                "kind": expect.kind,
                "run": expect.run,
                "round": expect.round,
                "slot": slot,
                "attempt": attempt,
                "seed": request.seed,
                "weights": weights,
                "result": {"key": key, "ttl": _RESULT_TTL_SECONDS},
                **extra,
            }
            if expect.kind == "rollout":
                meta["steps"] = expect.steps
            else:
                meta["episodes"] = request.episodes
            return wire.encode(meta, state(slot))

        fanout = Fanout(
            self._backend,
            self._cache,
            key,
            expect,
            build,
            timeout=self._timeout,
            priority=priority,
            told=told,
        )
        self._fanouts.add(fanout)
        return fanout

    async def _end(self, fanout: Fanout) -> None:
        self._fanouts.discard(fanout)
        await fanout.close()
        self._unused.add(fanout.take_counts())

    async def _settle_twice(self, fanout: Fanout, started: float) -> None:
        """One deadline for all slots, and one more for those that are missing then and not hopeless."""
        await fanout.settle(self.deadlines.after(started))
        missing = [slot.index for slot in fanout.missing() if not slot.hopeless]
        if missing:
            log.warning("slots %s are invoked once more: %s", missing, fanout.slots[missing[0]].trouble)
            fanout.start(missing)
            await fanout.settle(self.deadlines.now())

    def _stats(self, fanout: Fanout, started: float) -> DispatchStats:
        seconds = max(fanout.last_stored_at - started, 0.0)
        return fanout.take_counts().stats(seconds, at_once=min(self._backend.limit, len(fanout.slots)))


@dataclass
class _Round:
    plan: RoundPlan
    expect: Expectation
    fanout: Fanout
    first_start: float
    last_start: float


def _failed(what: str, fanout: Fanout, needed: str) -> RoundFailed:
    missing = fanout.missing()
    causes = Counter(slot.trouble for slot in missing).most_common(3)
    return RoundFailed(
        f"{what}: {len(missing)} of {len(fanout.slots)} slots did not come back although they were asked for "
        f"again ({needed}). Most frequent last trouble: "
        + "; ".join(f"{count} x {trouble}" for trouble, count in causes),
        resumable=not all(slot.hopeless for slot in missing),
    )
