"""What the operator remembers of a job between two reconciles. A restart may lose all of it."""

import logging
import random
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from pydantic import ValidationError

from nitro_api import JobInvalid, resolve_stored
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
from nitro_operator.observation.observed import Observed, named_secret
from nitro_operator.reconcile import permission
from nitro_operator.sleeping.memory import SleepMemory
from nitro_operator.status.events import FormerRunNews, SharingNews

logger = logging.getLogger(__name__)

TOO_DEEP = (
    f"spec has objects or lists nested more than {SPEC_LEVELS} levels deep, probably in "
    "spec.environment.kwargs, spec.algorithm.rllib, or settings of spec.algorithm, scaling or network. "
    "Remedy: nest less deeply, in a new job."
)

REMEDY = (
    "Remedy: if a newer release of Nitro stored the job, upgrade the operator; otherwise correct the job, "
    "delete it and apply it again."
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


@dataclass
class JobMemory:
    """Memory of one job. A new job of the same name gets a new one."""

    uid: str
    meter: PodMeter
    lifetimes: PodLifetimes = field(default_factory=PodLifetimes)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    learner_pods: LearnerPods = field(default_factory=LearnerPods)
    requests: RequestClock = field(default_factory=RequestClock)
    sleep: SleepMemory = field(default_factory=SleepMemory)
    sharing: SharingNews = field(default_factory=SharingNews)
    former: FormerRunNews = field(default_factory=FormerRunNews)
    view: JobView | None = None
    """The job with its resolved spec; None while its spec cannot be used."""
    invalid: str | None = None
    """Why the spec cannot be used."""
    not_allowed: Problem | None = None
    """What the platform forbids of this job; it does not run."""
    unlisted: Problem | None = None
    """Labels or annotations that the platform does not take. A learner that has started goes on with them."""
    trouble: dict[str, Problem] = field(default_factory=dict)
    """What the API server refused at the last try, by component."""
    jitter: float = field(default_factory=lambda: random.uniform(0.75, 1.25))
    """Factor of this job's periods: jobs that started together must not always write together."""
    namespace_ending: bool = False
    """Whether its namespace is being deleted: nothing can be created in it, and this job goes with it."""
    secret_checked: float = float("-inf")
    credentials: str | None = None
    """Name of the Secret that the pods were made with, or of the next one; None while there are no pods."""
    status_written: float = float("-inf")
    _generation: int | None = None

    @classmethod
    def restored(cls, job: Object, observed: Observed, server_now: datetime) -> Self:
        """Go on from what the status and the children say."""
        meter = PodMeter.restored(job, observed.actor_pods, server_now)
        lifetimes = PodLifetimes.restored(job, observed.actor_pods, server_now)
        secret, sleep = named_secret(observed), SleepMemory.restored(job)
        return cls(job["metadata"]["uid"], meter, lifetimes, credentials=secret, sleep=sleep)

    def has_read(self, job: Object) -> bool:
        """Whether `read` has seen this generation of the spec. A deletion makes a new one, too."""
        meta = job["metadata"]
        return (self.uid, self._generation) == (meta["uid"], meta.get("generation"))

    def name_secret(self, name: str) -> None:
        """Go on with a Secret of this name: that of the pods that run, or a new one."""
        self.credentials = name
        if self.view is not None:
            self.view = replace(self.view, credentials=name)

    def read(self, job: Object, config: Config) -> None:
        """Resolve a new generation of the spec; each is resolved once."""
        generation = job["metadata"].get("generation")
        if generation == self._generation and (self.view or self.invalid):
            if self.view is not None:  # labels, such as Kueue's, change without a new generation
                self.view.job["metadata"] = job["metadata"]
            return
        self._generation = generation
        self.view = self.invalid = self.not_allowed = self.unlisted = None
        spec = whole_spec(job)
        if levels(spec) > SPEC_LEVELS:
            self.invalid = TOO_DEEP
            return
        try:
            self.view = JobView.of(job, resolve_stored({**job, "spec": spec}).spec, config, self.credentials)
            self.not_allowed = None if config.entry_points else permission.other_code(self.view.spec)
            self.unlisted = permission.metadata(self.view.spec, config)
        except (JobInvalid, ValidationError) as error:
            self.invalid = f"{error} {REMEDY}"
        except Exception as error:  # one job must not stop the others, nor an operator that starts
            logger.exception("the spec of %s cannot be read", job["metadata"]["name"])
            self.invalid = f"the operator fails to read the spec: {error!r}. Report this. {REMEDY}"
