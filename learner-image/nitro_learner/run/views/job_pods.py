"""What a job and its actor pods did, as the API server tells it look by look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nitro_api.pools.pod_resources import Pod
from nitro_learner.run.views.pod_lives import PodLives

_ENDED = ("Succeeded", "Failed", "Suspended")


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
