"""What a learner says that it needs of its pods, as far as it can be believed."""

from __future__ import annotations

import math
from collections import deque
from datetime import datetime

from nitro_api.pools.sleeping import Later, PoolNeed
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation.reported import moment

REMEMBERED = 16
"""Earlier needs that are remembered: the learner's word falls a few times in a gap."""
ALL = 2**31
"""More pods than any job has."""


class NeedClock:
    """The learner's words on what it needs, with the times at which they came, by this process's clock.

    A word holds since it was first seen, because the learner's clock may be wrong. Of a word that was there
    when the operator began, the learner's own time says how old it is.

    A learner that finishes a round must have needed actors in it. One that has not said so is not believed
    until it says that it needs some: a job's report never gives it more than its grant.

    Usage::

        clock.see(training, now, server_now)
        need = clock.need(per_pod, now)
    """

    def __init__(self) -> None:
        self._word: TrainingStatus | None = None
        self._at = 0.0
        self._past: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._held: int | None = None
        self._returned: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._round: int | None = None
        self._needed = True  # in the present round
        self._believed = True

    def see(self, training: TrainingStatus | None, now: float, server_now: datetime) -> None:
        """Note the learner's report."""
        if training is None or training.needed_at is None:
            self._word = None
            return
        before, self._word = self._word, training
        if before is None:
            decided = moment(training.needed_at) or server_now
            self._at = now - max(0.0, (server_now - decided).total_seconds())
            self._past.append((self._at, ALL))
        elif before.needed_at != training.needed_at:
            if (training.needs_now or 0) < (before.needs_now or 0):
                self._past.append((now, before.needs_now or 0))
            self._at = now
        self._judge(training)

    @property
    def said_nothing(self) -> bool:
        """Whether the learner does not say what it needs, as those of earlier releases."""
        return self._word is None

    @property
    def known(self) -> bool:
        """Whether the learner says what it needs, and is believed."""
        return self._word is not None and self._believed

    def need(self, per_pod: int, now: float) -> PoolNeed | None:
        """The need in pods; None where all pods must be awake, because the learner does not say it.

        Args:
            per_pod: actors in a pod.
            now: monotonic, in seconds.
        """
        word = self._word
        if word is None or not self._believed:
            return None
        later = [
            Later(self._at + one.after_seconds - now, math.ceil(one.actors / per_pod))
            for one in word.needs_later or ()
        ]
        past = [Later(now - at, math.ceil(actors / per_pod)) for at, actors in reversed(self._past)]
        returned = [Later(now - at, pods) for at, pods in reversed(self._returned)]
        return PoolNeed(math.ceil((word.needs_now or 0) / per_pod), later, past, returned)

    def hold(self, pods: int, needed: int, now: float) -> None:
        """Note how many pods are held from now on, of which so many are needed."""
        if self._held is not None and pods > max(self._held, needed):
            self._returned.append((now, pods))
        elif needed:
            self._returned.clear()
        self._held = pods

    def _judge(self, training: TrainingStatus) -> None:
        needs = bool(training.needs_now)
        if training.round != self._round:
            if self._round is not None and not self._needed:
                self._believed = False
            self._round, self._needed = training.round, False
        self._needed = self._needed or needs
        self._believed = self._believed or needs
