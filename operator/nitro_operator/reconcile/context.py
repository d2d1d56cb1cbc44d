"""The state of one reconcile of one job, passed from step to step."""

from dataclasses import dataclass, field
from datetime import datetime

from nitro_api.pools.sleeping import Division
from nitro_operator.backends import ActorDeployment
from nitro_operator.builders.storage import Source
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.status.phase import Judgement


@dataclass
class ReconcileContext:
    """One reconcile of one job: its inputs, and its decisions so far."""

    key: JobKey
    job: Object
    memory: JobMemory
    observed: Observed
    judgement: Judgement
    now: float
    """Monotonic, in seconds."""
    server_now: datetime
    deployment: ActorDeployment | None = None
    waiting: Problem | None = None
    source: Source | None = None
    """Another run, from which a learner that starts now begins."""
    leaving: list[str] = field(default_factory=list)
    """Actors of an earlier run, which have to be deleted first."""
    requested: int = 0
    granted: int = 0
    held: int = 0
    """Actors to keep ready, idle ones included."""
    division: Division | None = None
    """How its pods are to be divided between awake and asleep; None where all are to be awake."""
    addresses: list[str] | None = None
    """Of the awake pods that the learner may use; None where it reaches them by their Service."""
    deferred: int = 0
    """Actors that are to wake, and for which there is no room."""
    taken: str = ""
    """What took the room."""
    sleepless: Problem | None = None
    """Why its actors cannot sleep; None if they can, or need not."""
    silent: str | None = None
    """The learner's message while no actor has answered it; None otherwise."""
    heard: bool = False
    again: list[float] = field(default_factory=list)
    """Seconds until the next reconciles."""
