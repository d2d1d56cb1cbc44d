"""What the status says of a job's actor pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nitro_api.pools.holding import PodTimes
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import Problem


@dataclass(frozen=True)
class PodReport:
    """What is known of the actor pods."""

    seconds: float = 0.0
    """Time that they have existed."""
    vcpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """CPU that they have requested, by state."""
    pod_vcpu: float | None = None
    """CPU that an awake pod requests; None if it is not known."""
    started: int = 0
    starting: int = 0
    draining: int = 0
    times: PodTimes | None = None
    """Times to start a pod, to release and to wake one; None for a backend without pods."""
    awake: int = 0
    """Actors in ready pods with their whole CPU."""
    asleep: int = 0
    deferred: int = 0
    """Actors that are to wake, and for which there is no room."""
    taken: str = ""
    """What took the room, if some have waited for a while."""
    sleepless: Problem | None = None
    """Why none can sleep, if one could save something."""
    addresses: list[str] | None = None
    """Of the awake pods; None where the learner reaches them by their Service."""

    def to_status(self, busy: float | None) -> Object:
        """The fields of status.actors. `busy`: pod-seconds in which actors worked; None if unknown."""
        fields: Object = {"podSeconds": round(self.seconds, 1)}
        if self.times is None:
            return fields
        fields |= {"started": self.started, "starting": self.starting, "draining": self.draining}
        fields |= {
            "startSeconds": round(self.times.start, 1),
            "drainSeconds": round(self.times.drain, 1),
            "wakeSeconds": round(self.times.wake, 1),
            "vcpuSeconds": {state: round(total, 2) for state, total in self.vcpu_seconds.items()},
        }
        fields |= {"awake": self.awake, "asleep": self.asleep, "deferred": self.deferred}
        if self.pod_vcpu is not None:
            fields["podVCPU"] = round(self.pod_vcpu, 4)
        if self.addresses is not None:
            fields["addresses"] = self.addresses
        if busy is not None and self.seconds > 0:
            fields["idlePercent"] = round(100 * max(0.0, 1 - busy / self.seconds))
        return fields

    @property
    def waits(self) -> str:
        """What is said of sleepers that cannot wake."""
        return (
            f"{self.deferred} sleeping actors are to wake, and there is no room for their CPU: {self.taken}. "
            "The others sample in waves until then. Remedy: free room on their nodes or in the quota, or set "
            "spec.scaling.sleep to never, so that actors keep their CPU."
        )
