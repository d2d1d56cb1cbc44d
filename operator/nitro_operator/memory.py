"""What the operator remembers of a job between reconciles: nothing that a restart may not forget."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from pydantic import ValidationError

from nitro_api import JobInvalid, resolve_stored
from nitro_operator.builders import JobView
from nitro_operator.config import Config
from nitro_operator.diagnosis import Problem
from nitro_operator.heartbeat import Heartbeat
from nitro_operator.kinds import Object
from nitro_operator.metering import Meter


@dataclass
class JobMemory:
    """Per job; made anew for a new job of the same name."""

    uid: str
    meter: Meter
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    requests: RequestClock = field(default_factory=lambda: RequestClock())
    view: JobView | None = None
    """The job with its resolved spec; None while its spec cannot be used."""
    invalid: str | None = None
    """Why not."""
    trouble: dict[str, Problem] = field(default_factory=dict)
    """What the API server refused at the last try, by component."""
    jitter: float = field(default_factory=lambda: random.uniform(0.75, 1.25))
    """Factor of this job's periods: jobs that started together must not all write together ever after."""
    namespace_ending: bool = False
    """Nothing can be made in its namespace any more, ever: what is there goes by itself, this job too."""
    secret_checked: float = float("-inf")
    secret_created: str = ""
    status_written: float = float("-inf")
    _generation: int | None = None

    def read(self, job: Object, config: Config) -> None:
        """Take over a new generation of the spec: defaults are resolved once for each."""
        generation = job["metadata"].get("generation")
        if generation == self._generation and (self.view or self.invalid):
            return
        self._generation = generation
        self.view, self.invalid = None, None
        try:
            self.view = JobView(job, resolve_stored(job).spec, config)
        except (JobInvalid, ValidationError) as error:
            self.invalid = f"{error} Remedy: correct the job and apply it anew."


class RequestClock:
    """When a request for actors was first seen, for the score-to-scale latency."""

    def __init__(self) -> None:
        self._request: tuple[str | None, int | None] | None = None
        self._at: float | None = None

    def see(self, job: Object, now: float) -> None:
        training = (job.get("status") or {}).get("training") or {}
        request = (training.get("requestedAt"), training.get("requestedActors"))
        if request != self._request:
            # The first sight after a start is no measurement: the request may be old.
            self._at = now if self._request is not None else None
            self._request = request

    def answered(self, now: float) -> float | None:
        """Seconds from the request to its answer; None if it has been counted, or was never seen to come."""
        at, self._at = self._at, None
        return None if at is None else now - at
