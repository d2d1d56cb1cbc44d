"""Off-policy sampling: fragments of several rounds in the order in which they arrive.

Slots are lanes here: a lane samples for one round at a time and goes on from its last end state, so up to I_k
lanes are under way at once whatever round they were started in.
"""

import asyncio
import contextlib
import functools
import secrets
from collections import Counter
from dataclasses import replace

from nitro_learner.backends.base import Trouble
from nitro_learner.backends.tasks.counts import TaskStats
from nitro_learner.backends.tasks.task import Task
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.dispatch import Dispatcher, Fanout
from nitro_learner.sampling.plans import RoundPlan

_LOOK_SECONDS = 1.0
"""How often a wait looks whether its deadline moved or the cache failed."""


class Stream:
    """Keep lanes sampling and return what they sampled::

    stream.start(plan, actors)              # fills up to `actors` lanes, with the plan's weights
    fragments = stream.take()               # what has arrived since; their lanes are free again
    await stream.wait(deadline)             # until there is something to take, or nothing to wait for
    await stream.drop(version)              # gives up what samples with weights before `version`
    stats, lost = await stream.end_round(seconds, at_once)
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._rounds: dict[int, tuple[RoundPlan, Fanout]] = {}
        self._busy: dict[int, int] = {}  # the round that a lane samples for
        self._arrived: list[Fragment] = []
        self._lost: list[int] = []
        self._troubles: list[Trouble] = []
        self._recoverable = False
        self._stale = 0
        self._news = asyncio.Event()
        # End states follow from the order of arrival, so leftovers of an earlier sitting may go on from
        # others than this one's requests do. This sitting does not read those.
        self._sitting = f":{secrets.token_hex(8)}"

    @property
    def under_way(self) -> int:
        """Lanes that still sample: their fragments have not arrived, and they were not given up."""
        return len(self._busy) - len(self._arrived)

    @property
    def troubles(self) -> list[Trouble]:
        """The last errors of the slots that were given up in this round or are still tried."""
        trying = [
            slot.trouble
            for number, (_, fanout) in self._rounds.items()
            for slot in fanout.missing()
            if self._busy.get(slot.index) == number
        ]
        return self._troubles + trying

    @property
    def hopeless(self) -> bool:
        """Whether nothing is under way, and all slots that were given up in this round failed at their work
        itself."""
        return bool(self._troubles) and not self._recoverable and not self.under_way

    def start(self, plan: RoundPlan, actors: int) -> None:
        """Start free lanes until `actors` are sampling, lowest numbers first, and return at once. A lane
        that was started for this round and given up stays free until the next."""
        tried: set[int] = set()
        if plan.round in self._rounds:
            plan, fanout = self._rounds[plan.round]
            tried = set(fanout.tasks)
        else:
            plan = replace(plan, sitting=self._sitting)
        free = [lane for lane in range(actors) if lane not in self._busy and lane not in tried]
        chosen = free[: max(0, actors - len(self._busy))]
        if chosen:
            self._busy |= dict.fromkeys(chosen, plan.round)
            on_slot_done = functools.partial(self._on_slot_done, plan.round)
            self._rounds[plan.round] = plan, self._dispatcher.start_slots(plan, chosen, on_slot_done)

    def take(self) -> list[Fragment]:
        """Fragments that arrived since the last call, in order of arrival.

        Raises FatalError or CacheError once a slot or the cache has met one.
        """
        for _, fanout in self._rounds.values():
            fanout.raise_failures()
        arrived, self._arrived = self._arrived, []
        for fragment in arrived:
            del self._busy[fragment.slot]
        return arrived

    async def wait(self, deadline: float) -> None:
        """Return when there is something to take, when nothing is under way, or at `deadline` (the event
        loop's time), but after a second at the latest.
        """
        left = deadline - asyncio.get_running_loop().time()
        self._news.clear()
        if not self._arrived and self._busy and left > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                    await self._news.wait()

    async def drop(self, version: int) -> None:
        """Give up all lanes whose weights are older than `version`, and what they stored."""
        old = {number for number, (plan, _) in self._rounds.items() if plan.weights_version < version}
        stale = [lane for lane, number in self._busy.items() if number in old]
        for lane in stale:
            del self._busy[lane]
        self._stale += len(stale)
        self._arrived = [fragment for fragment in self._arrived if fragment.slot in self._busy]
        for number in old:
            await self._close(number)

    async def end_round(self, seconds: float, at_once: int) -> tuple[TaskStats, list[int]]:
        """What happened since the last call, in a round of `seconds`, and the slots that were given up."""
        for number, (_, fanout) in list(self._rounds.items()):
            if number not in self._busy.values() and not fanout.running:
                await self._close(number)
        counts = self._dispatcher.take_unused()
        for _, fanout in self._rounds.values():
            counts.add(fanout.take_counts())
        counts.dropped += Counter(stale=self._stale)
        self._stale = 0
        lost, self._lost = self._lost, []
        self._troubles.clear()
        self._recoverable = False
        return counts.stats(seconds, at_once), lost

    async def _close(self, number: int) -> None:
        plan, _ = self._rounds.pop(number)
        await self._dispatcher.abandon(plan)

    def _on_slot_done(self, round: int, slot: Task[Fragment]) -> None:
        if self._busy.get(slot.index) != round:
            return  # dropped
        if slot.result is not None:
            self._arrived.append(slot.result)
        else:
            del self._busy[slot.index]
            self._lost.append(slot.index)
            self._troubles.append(slot.trouble)
            self._recoverable |= not slot.hopeless
        self._news.set()
