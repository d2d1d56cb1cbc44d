"""Which sleepers work all the same, by the CPU that they were measured to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nitro_api.pools.sleeping import PoolNeed
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.metering import state_of
from nitro_operator.observation.observed import ready
from nitro_operator.sleeping.plan import uid_of

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
    """What is known of the sleepers of one job, by their uids."""

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

        Args:
            usages: the last measurement of each pod.
            pod_vcpu: CPU that an awake pod requests.
        """
        least = max(WORKING_SHARE * pod_vcpu, WORKING_VCPU)
        found: dict[str, float] = {}
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
                found[uid] = (usage.at - before).total_seconds()
            else:
                self.working.discard(uid)
        return found

    def is_hidden(self, worked: Mapping[str, float], need: PoolNeed | None, awake: int) -> bool:
        """Whether sleepers have worked again and again that the learner has not said that it needs.

        Args:
            worked: seconds for which they did.
            need: by the learner's word; None where it has said none.
            awake: pods that are awake.
        """
        if not worked:
            self._offences = self._offences if self.working else 0
            return False
        # Where a wake is refused, sleepers may do the work of a round. Then more were needed than are awake.
        hidden = need is not None and need.idle(awake + 1) >= max(worked.values())
        self._offences = self._offences + 1 if hidden else 0
        return self._offences >= OFFENCES
