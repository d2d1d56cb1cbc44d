"""The use of actor pods: the time for which they have existed on a node, terminating ones included, and the
CPU that they requested for it, by state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from nitro_api.costs.pod_use import STATES
from nitro_api.pools.pod_resources import asleep, cpu_of, to_sleep
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.slim import STATUS_WRITTEN_AT
from nitro_operator.observation import reported
from nitro_operator.observation.observed import alive, condition, ready, terminating

LONGEST_GAP_SECONDS = 3600.0


@dataclass(frozen=True)
class _Metered:
    """A pod as it was seen last."""

    pod: Object
    state: str
    vcpu: float


class PodMeter:
    """Integrate the number of pods, and the CPU that they request, over time. The sums are exact if they are
    sampled at every event of a pod.

    A pod is first seen some time after its start, because the kubelet reports late on a busy node. That time
    is added when the pod is first seen.

    Attributes:
        total: unit: pod-seconds.
        vcpu_seconds: requested CPU by state.
        pod_vcpu: CPU that an awake pod requests; None before one was seen.
    """

    def __init__(
        self, total: float = 0.0, vcpu: Mapping[str, float] | None = None, pod_vcpu: float | None = None
    ) -> None:
        self.total = total
        self.vcpu_seconds = dict.fromkeys(STATES, 0.0) | dict(vcpu or {})
        self.pod_vcpu = pod_vcpu
        self._pods: dict[str, _Metered] = {}
        self._at: float | None = None

    @classmethod
    def restored(cls, job: Object, pods: Sequence[Object], server_now: datetime) -> Self:
        """Continue from the published numbers, and add the time of existing pods since their publication.

        Both times are the API server's, so a wrong clock of this machine changes nothing.
        """
        meter = cls(reported.pod_seconds(job), reported.vcpu_seconds(job), reported.actors(job).pod_vcpu)
        written = job["metadata"].get(STATUS_WRITTEN_AT)
        if written is None:
            return meter
        gap = min(
            max(0.0, (server_now - datetime.fromisoformat(written)).total_seconds()), LONGEST_GAP_SECONDS
        )
        meter._meet(pods, server_now, gap)
        return meter

    def sample(self, pods: Sequence[Object], now: float, server_now: datetime) -> float:
        """Pod-seconds up to now; `now` is monotonic, in seconds."""
        if self._at is not None:
            for pod in self._pods.values():
                self._add(pod.state, pod.vcpu, now - self._at)
        self._at = now
        self._meet(pods, server_now, LONGEST_GAP_SECONDS)
        return self.total

    def worked(self, uid: str, seconds: float) -> None:
        """Add what an awake pod costs more than the sleeper that was found to have worked for some time. The
        sums never fall, so the sleeper's own part stays where it is."""
        pod = self._pods.get(uid)
        if pod is not None and self.pod_vcpu is not None:
            self.vcpu_seconds["awake"] += max(0.0, self.pod_vcpu - pod.vcpu) * seconds

    @property
    def running(self) -> bool:
        return bool(self._pods)

    def _meet(self, pods: Sequence[Object], server_now: datetime, most: float) -> None:
        """Take the pods that exist now. Add the time since the start of each that is new, at most `most`
        seconds."""
        known, self._pods = self._pods, {}
        for pod in pods:
            if not billed(pod):
                continue
            uid = pod["metadata"]["uid"]
            before = known.get(uid)
            # A watch gives another object for each change of a pod.
            seen = before if before is not None and before.pod is pod else _metered(pod)
            self._pods[uid] = seen
            if seen.state in ("starting", "awake") and seen.vcpu > 0:
                self.pod_vcpu = seen.vcpu
            if before is None:
                age = min(most, max(0.0, _age(pod, server_now)))
                starting = min(age, max(0.0, age - _ready_seconds(pod, server_now)))
                self._add("starting", seen.vcpu, starting)
                self._add(seen.state, seen.vcpu, age - starting)

    def _add(self, state: str, vcpu: float, seconds: float) -> None:
        self.total += seconds
        self.vcpu_seconds[state] += vcpu * seconds


def billed(pod: Object) -> bool:
    """Whether a pod occupies a node: accepted by a kubelet and not over."""
    return "startTime" in (pod.get("status") or {}) and alive(pod)


def state_of(pod: Object) -> str:
    """One of STATES. A pod that is being woken is awake: the scheduler counts its whole CPU already. One that
    starts with the request of a sleeper is asleep."""
    if terminating(pod):
        return "draining"
    if asleep(pod) and to_sleep(pod):
        return "asleep"
    return "awake" if ready(pod) else "starting"


def starting(pod: Object) -> bool:
    """Whether a pod is on a node, and its actors cannot work yet."""
    return billed(pod) and not ready(pod) and not terminating(pod)


def _metered(pod: Object) -> _Metered:
    return _Metered(pod, state_of(pod), cpu_of(pod))


def _age(pod: Object, server_now: datetime) -> float:
    """Seconds since a kubelet accepted a pod. Its clock may be wrong: a pod is not older than its object."""
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    started = reported.moment(pod["status"]["startTime"]) or created
    return (server_now - max(created, started)).total_seconds()


def _ready_seconds(pod: Object, server_now: datetime) -> float:
    """Seconds for which a pod has not been starting: all of its time if it is not known when that ended."""
    if starting(pod):
        return 0.0
    since = reported.moment((condition(pod, "Ready") or {}).get("lastTransitionTime"))
    if since is None or terminating(pod):
        return float("inf")
    return (server_now - since).total_seconds()
