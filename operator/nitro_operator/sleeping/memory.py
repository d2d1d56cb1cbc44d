"""What the operator remembers of a job's pods: what the learner needs of them, and who works asleep."""

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from nitro_api.pools.sleeping import Later, PoolNeed
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.metering import state_of
from nitro_operator.observation.observed import ready
from nitro_operator.observation.reported import moment
from nitro_operator.sleeping.plan import pending, uid_of

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
        """Whether the learner has not said yet what it needs."""
        return self._word is None

    @property
    def known(self) -> bool:
        """Whether the learner says what it needs, and is believed."""
        return self._word is not None and self._believed

    def need(self, per_pod: int, now: float) -> PoolNeed | None:
        """The need in pods; None where all pods must be awake, because the learner does not say it.

        Args:
            now: monotonic, in seconds.
        """
        word = self._word
        if word is None or not self._believed:
            return None
        later = [
            Later(self._at + need.after_seconds - now, math.ceil(need.actors / per_pod))
            for need in word.needs_later or ()
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


WORKING_SHARE = 0.1
"""A sleeper that uses this share of an awake pod's CPU works."""
WORKING_VCPU = 0.02
"""And at least so much: an idle server and the probes of its pod use a few thousandths."""
OFFENCES = 2
"""Measurements in a row that find work which the learner has not named, until its pods are kept awake: the
clock of a node may be a little wrong."""


@dataclass(frozen=True)
class Usage:
    """CPU that a pod's actor has used since the measurement before."""

    at: datetime
    vcpu: float


@dataclass
class WorkMemory:
    """Which sleepers of a job work all the same, by the CPU that they were measured to use."""

    working: set[str] = field(default_factory=set)
    """Those that worked when they were measured last."""
    _asleep_since: dict[str, datetime] = field(default_factory=dict)
    _measured_at: dict[str, datetime] = field(default_factory=dict)
    """The last measurement in the present sleep."""
    _offences: int = 0

    def see(self, pods: Sequence[Object], server_now: datetime) -> bool:
        """Note the pods that exist now. Returns whether some sleep that are ready: a start needs CPU."""
        asleep = {uid_of(pod) for pod in pods if ready(pod) and state_of(pod) == "asleep"}
        self._asleep_since = {uid: self._asleep_since.get(uid, server_now) for uid in asleep}
        self._measured_at = {uid: at for uid, at in self._measured_at.items() if uid in asleep}
        self.working &= asleep
        return bool(asleep)

    def worked(self, usages: Mapping[str, Usage], pod_vcpu: float) -> dict[str, float]:
        """Seconds for which sleepers have worked since the measurement before.

        The first measurement of a sleep says nothing: for a part of its time the pod was awake.
        """
        least = max(WORKING_SHARE * pod_vcpu, WORKING_VCPU)
        seconds: dict[str, float] = {}
        for uid, since in self._asleep_since.items():
            usage, before = usages.get(uid), self._measured_at.get(uid, since)
            if usage is None or usage.at <= before:
                continue
            if uid not in self._measured_at:
                self._measured_at[uid] = usage.at
                continue
            self._measured_at[uid] = usage.at
            if usage.vcpu >= least:
                self.working.add(uid)
                seconds[uid] = (usage.at - before).total_seconds()
            else:
                self.working.discard(uid)
        return seconds

    def is_hidden(self, worked: Mapping[str, float], need: PoolNeed | None, awake: int) -> bool:
        """Whether sleepers have worked again and again that the learner has not said that it needs.

        Args:
            need: by the learner's word; None where it has said none.
        """
        if not worked:
            self._offences = self._offences if self.working else 0
            return False
        # Where a wake is refused, sleepers may do the work of a round. Then more were needed than are awake.
        hidden = need is not None and need.idle(awake + 1) >= max(worked.values())
        self._offences = self._offences + 1 if hidden else 0
        return self._offences >= OFFENCES


OFF_SECONDS = 600.0
"""Time after which it is tried again whether pods can sleep: a right or a feature may have been added."""
REFUSED_SECONDS = 2.0
"""Time after which a wake is tried again that a quota had no room for."""


@dataclass
class SleepMemory:
    """Memory of one job."""

    clock: NeedClock = field(default_factory=NeedClock)
    order: list[str] = field(default_factory=list)
    """Uids of the awake pods, in the order of their addresses."""
    own: set[str] = field(default_factory=set)
    """Uids of pods that the job's Revision owns."""
    strangers: set[str] = field(default_factory=set)
    """Uids of other pods that have the job's labels."""
    been_ready: set[str] = field(default_factory=set)
    """Uids of pods that have been ready. One of them that is not ready for a moment may work."""
    off: Problem | None = None
    """Why no pod of the job can sleep."""
    off_until: float = float("-inf")
    refused: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Uid of a pod whose wake was refused -> why, and when it is tried again."""
    work: WorkMemory = field(default_factory=WorkMemory)
    look_at: float = float("-inf")
    """When it is looked at next whether sleepers work."""
    _since: dict[str, float] = field(default_factory=dict)
    _addresses: Sequence[str] = ()

    @classmethod
    def restored(cls, job: Object) -> Self:
        """Go on with the order of the published addresses."""
        return cls(_addresses=reported.actors(job).addresses or ())

    def see(self, pods: Sequence[Object], now: float) -> None:
        """Note the pods that exist now."""
        if self._addresses:
            by_address = {
                pod["status"].get("podIP"): pod["metadata"]["uid"] for pod in pods if pod.get("status")
            }
            self.order = [by_address[address] for address in self._addresses if address in by_address]
            self.been_ready = set(self.order)
            self._addresses = ()
        present = {pod["metadata"]["uid"] for pod in pods}
        self.order = [uid for uid in self.order if uid in present]
        self.own &= present
        self.strangers &= present
        self.been_ready &= present
        self.been_ready |= {pod["metadata"]["uid"] for pod in pods if ready(pod)}
        self.refused = {uid: why for uid, why in self.refused.items() if uid in present}
        late = {pod["metadata"]["uid"] for pod in pods if pending(pod) is not None} | self.refused.keys()
        self._since = {uid: self._since.get(uid, now) for uid in late}
        if now >= self.off_until:
            self.off = None

    def deferred(self, now: float) -> dict[str, float]:
        """Uid of each pod whose wake its node defers -> the seconds since then."""
        return {uid: now - since for uid, since in self._since.items()}

    def turn_off(self, why: Problem, now: float) -> None:
        self.off, self.off_until = why, now + OFF_SECONDS * random.uniform(0.75, 1.25)

    def refuse(self, pod: Object, why: str, now: float) -> None:
        """Note that a pod could not be woken."""
        self.refused[pod["metadata"]["uid"]] = why, now + REFUSED_SECONDS * random.uniform(0.75, 1.25)
