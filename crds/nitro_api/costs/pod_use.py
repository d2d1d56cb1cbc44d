"""What actor pods have used: time on nodes, and the CPU that they requested for it by state."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from nitro_api.costs.prices import pod_cost
from nitro_api.spec.pricing import Pricing
from nitro_api.spec.status import VcpuSeconds

STATES = tuple(VcpuSeconds.model_fields)


@dataclass(frozen=True)
class PodUse:
    """The use of a run's pods so far, or of a part of the run.

    Attributes:
        seconds: time for which pods existed. Unit: pod-seconds.
        vcpu_seconds: requested CPU by state. Empty where an operator of an older release did not measure it:
            its pods never slept.
        pod_vcpu: CPU that an awake pod requests.
        per_pod: actors in a pod, each with the memory of pricing.actorMemoryGB.
    """

    seconds: float = 0.0
    vcpu_seconds: Mapping[str, float] = field(default_factory=dict)
    pod_vcpu: float = 0.0
    per_pod: int = 1

    @property
    def vcpu(self) -> float:
        """Requested CPU in all states. Unit: vCPU-seconds."""
        if self.vcpu_seconds:
            return math.fsum(self.vcpu_seconds.values())
        return self.seconds * self.pod_vcpu

    def since(self, before: Self) -> Self:
        """The part of it that came after `before`. Unknown CPU stays unknown."""
        return type(self)(
            max(0.0, self.seconds - before.seconds),
            {
                state: max(0.0, total - before.vcpu_seconds.get(state, 0.0))
                for state, total in self.vcpu_seconds.items()
            },
            self.pod_vcpu,
            self.per_pod,
        )

    def at_least(self, before: Self) -> Self:
        """The same, no number below that of `before`: a meter that begins anew takes nothing back."""
        states = {*self.vcpu_seconds, *before.vcpu_seconds}
        return type(self)(
            max(self.seconds, before.seconds),
            {
                state: max(self.vcpu_seconds.get(state, 0.0), before.vcpu_seconds.get(state, 0.0))
                for state in STATES
                if state in states
            },
            self.pod_vcpu,
            self.per_pod,
        )

    def gb_seconds(self, pricing: Pricing) -> float:
        """Time by memory."""
        return self.seconds * self.per_pod * pricing.actor_memory_gb

    def dollars(self, pricing: Pricing, *, slept: bool) -> float:
        """What it costs. `slept` says whether any pod of the run has slept so far: if none has, the price of
        an awake pod is not divided, and rounding cannot change it."""
        gb_seconds, awake = self.gb_seconds(pricing), None
        if slept and self.pod_vcpu > 0:
            awake = self.vcpu / self.pod_vcpu * self.per_pod * pricing.actor_memory_gb
        return pod_cost(pricing, gb_seconds, self.vcpu, awake_gb_seconds=awake)
