"""What the operator remembers of a job between two reconciles. A restart may lose all of it."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field

from pydantic import ValidationError

from nitro_api import JobInvalid, JobSpec, resolve_stored
from nitro_operator.builders import JobView
from nitro_operator.config import Config
from nitro_operator.kube.decoding import SPEC_LEVELS, levels
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.slim import whole_spec
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.heartbeat import Heartbeat
from nitro_operator.observation.learner_pods import LearnerPods
from nitro_operator.observation.lifetimes import PodLifetimes
from nitro_operator.observation.metering import PodMeter
from nitro_operator.status.sharing import SharingNews

logger = logging.getLogger(__name__)

TOO_DEEP = (
    f"spec has objects or lists nested more than {SPEC_LEVELS} levels deep, probably in "
    "spec.environment.kwargs or spec.algorithm.rllib. Remedy: nest less deeply, in a new job."
)

REMEDY = (
    "Remedy: if a newer release of Nitro stored the job, upgrade the operator; otherwise correct the job, "
    "delete it and apply it again."
)


@dataclass
class JobMemory:
    """Memory of one job. A new job of the same name gets a new one."""

    uid: str
    meter: PodMeter
    lifetimes: PodLifetimes = field(default_factory=PodLifetimes)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    learner_pods: LearnerPods = field(default_factory=LearnerPods)
    requests: RequestClock = field(default_factory=lambda: RequestClock())
    sharing: SharingNews = field(default_factory=SharingNews)
    view: JobView | None = None
    """The job with its resolved spec; None while its spec cannot be used."""
    invalid: str | None = None
    """Why the spec cannot be used."""
    not_allowed: Problem | None = None
    """What the platform forbids of this job; it does not run."""
    trouble: dict[str, Problem] = field(default_factory=dict)
    """What the API server refused at the last try, by component."""
    jitter: float = field(default_factory=lambda: random.uniform(0.75, 1.25))
    """Factor of this job's periods: jobs that started together must not always write together."""
    namespace_ending: bool = False
    """Whether its namespace is being deleted: nothing can be created in it, and this job goes with it."""
    secret_checked: float = float("-inf")
    secret_created: str = ""
    status_written: float = float("-inf")
    _generation: int | None = None

    def has_read(self, job: Object) -> bool:
        """Whether `read` has seen this generation of the spec. A deletion makes a new one, too."""
        return self.uid == job["metadata"]["uid"] and self._generation == job["metadata"].get("generation")

    def read(self, job: Object, config: Config) -> None:
        """Resolve a new generation of the spec; each is resolved once."""
        generation = job["metadata"].get("generation")
        if generation == self._generation and (self.view or self.invalid):
            if self.view is not None:  # labels, such as Kueue's, change without a new generation
                self.view.job["metadata"] = job["metadata"]
            return
        self._generation = generation
        self.view, self.invalid, self.not_allowed = None, None, None
        spec = whole_spec(job)
        if levels(spec) > SPEC_LEVELS:
            self.invalid = TOO_DEEP
            return
        try:
            self.view = JobView.of(job, resolve_stored({**job, "spec": spec}).spec, config)
            self.not_allowed = None if config.entry_points else _other_code(self.view.spec)
        except (JobInvalid, ValidationError) as error:
            self.invalid = f"{error} {REMEDY}"
        except Exception as error:  # one job must not stop the others, nor an operator that starts
            logger.exception("the spec of %s cannot be read", job["metadata"]["name"])
            self.invalid = f"the operator fails to read the spec: {error!r}. Report this. {REMEDY}"


def _other_code(spec: JobSpec) -> Problem | None:
    """The refusal of a job that can bring code into an allowed image: `os:system` would run any command, and
    so would a mounted module that PYTHONPATH names."""
    environment = spec.environment
    named = environment.entry_point or environment.id
    if ":" in named:
        field = "entryPoint" if environment.entry_point is not None else "id"
        return _forbidden(
            f"spec.environment.{field}: {named!r} names a module to import",
            "create a job whose environment.id is registered in the actor image",
        )
    for part, pod in (("actor", spec.actor), ("learner", spec.learner)):
        for field, given in (("env", pod.env), ("volumes", pod.volumes)):
            if given:
                return _forbidden(
                    f"spec.{part}.{field} can make a program load other code",
                    f"suspend the job, remove spec.{part}.{field}, and resume it",
                )
    return None


def _forbidden(what: str, remedy: str) -> Problem:
    return Problem(
        "EntryPointForbidden",
        f"{what}, which this platform forbids (the chart's platform.entryPoints is false). Remedy: {remedy}, "
        "or ask the platform's administrator. The job continues by itself if that changes.",
    )


class RequestClock:
    """Measure the age of a request for actors, and the time to its answer."""

    def __init__(self) -> None:
        self._request: tuple[object, ...] | None = None
        self._at: float | None = None
        self._seen = float("-inf")

    def see(self, job: Object, now: float) -> None:
        training = reported.section(job, "training")
        request = (training.get("requestedAt"), training.get("requests"), training.get("requestedActors"))
        if request != self._request:
            # The first request after a start is not measured: it may be old.
            self._at = now if self._request is not None else None
            self._request = request
            self._seen = now

    def age(self, now: float) -> float:
        """Seconds since the present request was first seen; 0 before the first request."""
        return max(0.0, now - self._seen) if self._request is not None else 0.0

    def answered(self, now: float) -> float | None:
        """Seconds from the request to this answer; None if it is not measured."""
        at, self._at = self._at, None
        return None if at is None else now - at
