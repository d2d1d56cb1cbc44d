"""The actors' pods as the operator has reported them, and what they have used since."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from nitro_api.costs.pod_prices import SIDECAR_VCPU
from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.status import ActorsStatus

_READ = ("podSeconds", "vcpuSeconds", "podVCPU", "ready", "asleep", "draining", "drainSeconds")
_SILENT_SECONDS = 120.0
"""The operator writes more often. After a longer silence the pods may not run any more."""


@dataclass(frozen=True)
class ClusterPods:
    """status.actors, and when it was read first.

    Attributes:
        use: as the operator has measured it.
        awake: ready pods that are awake.
        asleep: ready pods that sleep.
        draining: pods that are going.
        drain_seconds: median time until a pod is gone.
    """

    use: PodUse
    awake: float
    asleep: float
    draining: float
    drain_seconds: float
    read_at: float = field(default_factory=time.monotonic, compare=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any], per_pod: int, before: Self | None) -> Self | None:
        """The pods of a stored status.actors; `before` where the operator has reported nothing new."""
        actors = ActorsStatus.model_validate({name: raw[name] for name in _READ if name in raw})
        if actors.pod_seconds is None:
            return before
        measured = actors.vcpu_seconds
        use = PodUse(
            actors.pod_seconds,
            measured.to_dict() if measured is not None else {},
            actors.pod_vcpu or 0.0,
            per_pod,
        )
        asleep = (actors.asleep or 0) / per_pod
        awake = max(0.0, (actors.ready or 0) / per_pod - asleep)
        pods = cls(use, awake, asleep, actors.draining or 0, actors.drain_seconds or 0.0)
        return before if pods == before else pods

    def now(self) -> PodUse:
        """What the pods have used until now, if as many as then are still there."""
        since = min(time.monotonic() - self.read_at, _SILENT_SECONDS)
        more = {"awake": self.awake * self.use.pod_vcpu * since, "asleep": self.asleep * SIDECAR_VCPU * since}
        return self._with((self.awake + self.asleep) * since, more)

    def drain(self) -> PodUse:
        """What the pods will use until they are gone. Those that go already are half through."""
        left = self.drain_seconds * (self.awake + self.draining / 2)
        cpu = left * self.use.pod_vcpu + self.drain_seconds * self.asleep * SIDECAR_VCPU
        return PodUse(
            left + self.drain_seconds * self.asleep,
            {"draining": cpu} if self.use.vcpu_seconds else {},
            self.use.pod_vcpu,
            self.use.per_pod,
        )

    def _with(self, seconds: float, cpu: Mapping[str, float]) -> PodUse:
        measured = self.use.vcpu_seconds
        return PodUse(
            self.use.seconds + seconds,
            {state: total + cpu.get(state, 0.0) for state, total in measured.items()},
            self.use.pod_vcpu,
            self.use.per_pod,
        )
