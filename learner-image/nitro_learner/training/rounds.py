"""How an algorithm gets a round's fragments: all at once when they are complete, or as they arrive."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.epochs import OnProgress, reporting_to
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.backends.base import ActorBackend, causes, evidence
from nitro_learner.backends.cache.base import Cache
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundFailed, RoundPlan, RoundResult
from nitro_learner.sampling.stream import Stream
from nitro_learner.training.compute import Compute
from nitro_learner.training.device import fitting
from nitro_learner.training.waiting import Interrupted, Stages, unless

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RoundContext:
    """The round that a feed learns from.

    Attributes:
        actors: I_k.
        saved: done when the state before the round is on disk, if it is its turn; no update may begin
            earlier.
        keep: keeps the state before the round, for a checkpoint of a round that is broken off.
        stages: where the time goes.
        on_stage_started: called with the name of each stage that begins.
        on_sampled: called when no actor samples any more, before the update.
        on_progress: called with the share of the update that is done, where the algorithm reports it.
    """

    plan: RoundPlan
    actors: int
    saved: Awaitable[None]
    keep: Callable[[], None]
    stages: Stages
    on_stage_started: Callable[[str], None]
    on_sampled: Callable[[], None] = lambda: None
    on_progress: OnProgress = lambda _: None


class Feed(Protocol):
    """Sample rounds and feed the algorithm::

    await feed.start(plan, min_actors)                      # before I_k is known
    await feed.start(plan, actors)
    result, update = await feed.learn(RoundContext(...))
    """

    async def start(self, plan: RoundPlan, actors: int) -> None:
        """Start sampling with `actors` actors, without waiting for them. May be called again with more."""

    async def learn(self, round: RoundContext) -> tuple[RoundResult, Mapping[str, UpdateResult]]:
        """Gather the round's fragments and learn from them.

        Raises:
            Interrupted: the run shall stop, and no fragment of the round was learned from.
            RoundFailed, FatalError, CacheError: see Dispatcher.finish.
            FloatingPointError: the weights are not finite any more.
        """


def make(
    policies: PolicySet,
    dispatcher: Dispatcher,
    backend: ActorBackend,
    cache: Cache,
    compute: Compute,
    stop: asyncio.Event,
) -> Feed:
    """The feed that the policies' algorithms want; `stop` ends its waits."""
    if policies.feeding == "arrivals":
        # The newest version, and those that fragments may still be sampled with.
        cache.kept_versions = max(cache.kept_versions, policies.max_staleness + 2)
        return AsyncRounds(policies, dispatcher, backend, compute, stop)
    return SyncRounds(policies, dispatcher, compute, stop)


class SyncRounds:
    """The feed of an on-policy algorithm: all fragments of a round, sampled with the newest weights."""

    def __init__(
        self, policies: PolicySet, dispatcher: Dispatcher, compute: Compute, stop: asyncio.Event
    ) -> None:
        self._policies = policies
        self._dispatcher = dispatcher
        self._compute = compute
        self._stop = stop
        self._started = (0, 0)  # round, slots

    async def start(self, plan: RoundPlan, actors: int) -> None:
        started = self._started[1] if self._started[0] == plan.round else 0
        self._dispatcher.start_slots(plan, range(started, actors))
        self._started = plan.round, actors

    async def learn(self, round: RoundContext) -> tuple[RoundResult, Mapping[str, UpdateResult]]:
        with round.stages("sample"):
            result = await unless(self._dispatcher.finish(round.plan), self._stop)
        round.on_sampled()
        with round.stages("checkpoint"):
            await round.saved
        round.on_stage_started("update")
        with round.stages("update"):
            report = _from_thread(round.on_progress)
            update = await self._compute.update(self._update, result.fragments, round.plan.round, report)
        return result, update

    def _update(
        self, fragments: list[Fragment], round: int, report: OnProgress
    ) -> Mapping[str, UpdateResult]:
        with reporting_to(report), fitting(_named(round, fragments)):
            return self._policies.update(fragments, round)


def _named(round: int, fragments: list[Fragment]) -> str:
    """A round's update as an error names it."""
    arrays = [arrays for fragment in fragments for arrays in fragment.by_class.values()]
    return f"the update of round {round} with {sum(one['rewards'].size for one in arrays):,} transitions"


def _from_thread(on_progress: OnProgress) -> OnProgress:
    """A function for the update's thread that has `on_progress` called in this event loop."""
    loop = asyncio.get_running_loop()

    def report(share: float) -> None:
        with suppress(RuntimeError):  # the thread may outlive the loop
            loop.call_soon_threadsafe(on_progress, share)

    return report


class AsyncRounds:
    """The feed of an off-policy algorithm: fragments as they arrive, also of earlier rounds, and replay while
    none do. Some actors always sample, so there is no moment when none does.

    Round k has I_k actors under way at its start and ends when max(I_min, ceil(I_k / 2)) fragments have been
    learned from, or at the deadline with at least one; the others stay under way. What is more than
    `max_staleness` versions behind when a round begins is given up and counted.

    An interruption ends the round with what it has, because the algorithm cannot go back to its start.
    """

    def __init__(
        self,
        policies: PolicySet,
        dispatcher: Dispatcher,
        backend: ActorBackend,
        compute: Compute,
        stop: asyncio.Event,
    ) -> None:
        self._policies = policies
        self._dispatcher = dispatcher
        self._backend = backend
        self._compute = compute
        self._stop = stop
        self._stream = Stream(dispatcher)

    async def start(self, plan: RoundPlan, actors: int) -> None:
        await self._stream.drop(plan.weights_version - self._policies.max_staleness)
        self._stream.start(plan, actors)

    async def learn(self, round: RoundContext) -> tuple[RoundResult, Mapping[str, UpdateResult]]:
        plan, stages = round.plan, round.stages
        begin = asyncio.get_running_loop().time()
        with stages("checkpoint"):
            await round.saved
            # A round may be broken off after it has replayed, and no log has those updates.
            round.keep()
        wanted = max(plan.min_actors, -(-round.actors // 2))
        learned, feed = await self._gather(plan.round, wanted, stages)
        if not learned:
            if self._stop.is_set():
                raise Interrupted
            troubles = self._stream.troubles
            proof = evidence(troubles)
            raise RoundFailed(
                f"round {plan.round} failed: {causes(troubles)}\n"
                f"No fragment came before the deadline; {wanted} are wanted.",
                resumable=not proof.environment and not self._stream.hopeless,
                evidence=proof,
            )
        round.on_stage_started("update")
        with stages("update"):
            update = await self._compute.update(self._policies.end_round, plan.round)
        seconds = asyncio.get_running_loop().time() - begin
        # A round that the deadline ended would make the next deadline longer, and so on.
        if len(learned) >= wanted:
            self._dispatcher.deadlines.learn(seconds, len(learned))
        stats, lost = await self._stream.end_round(seconds, min(self._backend.limit, round.actors))
        logger.info("fed", extra={"fields": {"round": plan.round, "feed": feed}})
        oldest = min(fragment.meta["weightsVersion"] for fragment in learned)
        missed = 0 if self._stop.is_set() else max(0, wanted - len(learned))
        stats = replace(stats, deadline_misses=stats.deadline_misses + missed)
        return RoundResult(learned, lost, stats, staleness=plan.weights_version - oldest), update

    def _take(self, fragments: list[Fragment], round: int) -> None:
        with fitting(_named(round, fragments)):
            self._policies.take(fragments)

    async def _gather(
        self, round: int, wanted: int, stages: Stages
    ) -> tuple[list[Fragment], list[list[int] | int]]:
        """Feed until `wanted` fragments are learned from, until the deadline, or until nothing more can come.

        Returns the fragments, and the feed as it happened, from which the round's result follows: [round,
        slot] of each fragment in order, and how often was replayed in between.
        """
        learned: list[Fragment] = []
        feed: list[list[int] | int] = []
        stream, deadline = self._stream, self._dispatcher.deadlines.now()
        while len(learned) < wanted and not self._stop.is_set():
            arrived = stream.take()
            if arrived:
                with stages("update"):
                    await self._compute.update(self._take, arrived, round)
                learned += arrived
                feed += [[int(fragment.meta["round"]), fragment.slot] for fragment in arrived]
                continue
            if asyncio.get_running_loop().time() >= deadline() or not stream.under_way:
                break
            with stages("update"):
                replayed = await self._compute.update(self._policies.replay)
            if replayed:
                feed[-1:] = [feed[-1] + 1] if feed and isinstance(feed[-1], int) else [*feed[-1:], 1]
                continue
            with stages("sample"):
                try:
                    await unless(stream.wait(deadline()), self._stop)
                except Interrupted:
                    break
        return learned, feed
