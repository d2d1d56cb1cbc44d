"""What the operator remembers of a job's sleeping pods. The status and the pods themselves say the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import ready
from nitro_operator.sleeping.need import NeedClock
from nitro_operator.sleeping.phases import pending
from nitro_operator.sleeping.work import WorkMemory

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
    def restored(cls, job: Object) -> SleepMemory:
        """Go on with the order of the published addresses."""
        return cls(_addresses=reported.actors(job).addresses or ())

    def see(self, pods: Sequence[Object], now: float) -> None:
        """Note the pods that exist now."""
        if self._addresses:
            by_address = {
                pod["status"].get("podIP"): pod["metadata"]["uid"] for pod in pods if pod.get("status")
            }
            self.order = [by_address[one] for one in self._addresses if one in by_address]
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
