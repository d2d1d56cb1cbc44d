"""The lives of a job's actor pods as the API server tells them: starting, awake, asleep, draining."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nitro_api.pools.pod_resources import Pod, asleep, cpu_of, memory_of

STATES = ("starting", "awake", "asleep", "draining")
_GIB = 2.0**30
_ENDED = ("Succeeded", "Failed", "Suspended")


@dataclass(frozen=True)
class Span:
    """A time in which a pod's state and requests stayed the same. Times are Unix times in seconds."""

    state: str
    began: float
    ended: float
    vcpu: float
    """What the scheduler counts. Unit: vCPU."""

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def vcpu_seconds(self) -> float:
        return self.seconds * self.vcpu


@dataclass
class Life:
    """One pod, from the time when it was put on a node until it was gone.

    Attributes:
        gigabytes: memory that it requests.
        ended: when it was gone; None while it exists.
    """

    gigabytes: float
    ended: float | None = None
    _changes: list[tuple[float, str, float]] = field(default_factory=list)

    def become(self, state: str, at: float, vcpu: float) -> None:
        """From this time on it has this state and requests so much. What stays the same is no change."""
        if self._changes and self._changes[-1][1:] == (state, vcpu):
            return
        began = max(at, self._changes[-1][0]) if self._changes else at
        self._changes.append((began, state, vcpu))

    @property
    def fresh(self) -> bool:
        return not self._changes

    @property
    def was_ready(self) -> bool:
        """Whether it has been ready: one that is not ready for a moment does not start again."""
        return any(state in ("awake", "asleep") for _, state, _ in self._changes)

    def spans(self, now: float) -> list[Span]:
        """Its whole life up to now."""
        ends = [began for began, _, _ in self._changes[1:]] + [now if self.ended is None else self.ended]
        return [
            Span(state, began, max(began, end), vcpu)
            for (began, state, vcpu), end in zip(self._changes, ends, strict=True)
        ]


class PodLives:
    """Follow the pods of a job; every event of a watch is a look.

    lives = PodLives()
    lives.see(pods, time.time())
    lives.spans(time.time())                 # a list of spans for each pod, in the order of their starts
    """

    def __init__(self) -> None:
        self._lives: dict[str, Life] = {}

    def see(self, pods: Iterable[Pod], now: float) -> None:
        """Note the pods that exist now. One that is not here any more is gone."""
        present = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid, pod in present.items():
            bound = _since(pod, "PodScheduled")
            if bound is None:
                continue  # on no node: nobody pays for it
            life = self._lives.setdefault(uid, Life(memory_of(pod) / _GIB))
            if over(pod):
                life.ended = life.ended or now
                continue
            if life.fresh:  # what was missed before the first look
                life.become("starting", min(bound, now), cpu_of(pod))
                ready = _since(pod, "Ready")
                if ready is not None:
                    life.become("awake", min(ready, now), cpu_of(pod))
            life.become(_state(pod, life), now, cpu_of(pod))
        for uid in self._lives.keys() - present.keys():
            life = self._lives[uid]
            life.ended = life.ended or now

    @property
    def running(self) -> bool:
        """Whether there is a pod that is not gone."""
        return any(life.ended is None for life in self._lives.values())

    def spans(self, now: float) -> list[list[Span]]:
        """Of each pod, in the order of their starts."""
        lives = [life.spans(now) for life in self._lives.values() if not life.fresh]
        return sorted(lives, key=lambda spans: spans[0].began)

    def gigabyte_seconds(self, now: float) -> float:
        """Memory that the pods requested, over time. Unit: GB-seconds."""
        return sum(span.seconds * life.gigabytes for life in self._lives.values() for span in life.spans(now))


def vcpu_seconds(lives: Iterable[Iterable[Span]]) -> dict[str, float]:
    """What the pods requested over time, by their state. Unit: vCPU-seconds."""
    sums = dict.fromkeys(STATES, 0.0)
    for spans in lives:
        for span in spans:
            sums[span.state] += span.vcpu_seconds
    return sums


def over(pod: Pod) -> bool:
    """Whether all of it has ended, so that nobody pays for it any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _state(pod: Pod, life: Life) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "draining"
    if _since(pod, "Ready") is None and not life.was_ready:
        return "starting"
    return "asleep" if asleep(pod) else "awake"


def _since(pod: Pod, kind: str) -> float | None:
    """Since when a condition holds, as a Unix time; None where it does not."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == kind and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
    return None


@dataclass(frozen=True)
class PastNeed:
    """What the learner has said: from a Unix time on it uses `now` of the `asked` actors of its round.

    Both are 0 once the job is over.
    """

    at: float
    now: int
    asked: int


class JobPods:
    """What a job and its pods did, look by look.

    watched = JobPods()
    while not watched.over:
        watched.see(job, pods, time.time())      # as the API server has them
    draw_lives(watched.lives.spans(now), watched.needs, "hopper", out, end=now)
    """

    def __init__(self) -> None:
        self.lives = PodLives()
        self.needs: list[PastNeed] = []
        self._phase = ""

    def see(self, job: Mapping[str, Any], pods: Iterable[Pod], now: float) -> None:
        """Note the job and the pods that exist now."""
        self.lives.see(pods, now)
        self.hear(job, now)

    def hear(self, job: Mapping[str, Any], now: float) -> None:
        """Note what the learner says in its job that it needs."""
        status = job.get("status") or {}
        self._phase = status.get("phase") or ""
        if self._phase in _ENDED:
            if self.needs and self.needs[-1].asked:
                self.needs.append(PastNeed(now, 0, 0))
            return
        training = status.get("training") or {}
        stated, number = training.get("neededAt"), training.get("needsNow")
        if stated is None or number is None:
            return
        at = datetime.fromisoformat(stated).timestamp()
        if not self.needs or at > self.needs[-1].at:
            asked = (training.get("requests") or {}).get("actors") or training.get("requestedActors") or 0
            self.needs.append(PastNeed(at, number, asked))

    @property
    def over(self) -> bool:
        """Whether the job has no pods and will have none by itself."""
        return self._phase in _ENDED and not self.lives.running
