"""What one reconcile of one job carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from nitro_operator.backends import ActorBackend
from nitro_operator.diagnosis import Problem
from nitro_operator.kinds import JobKey, Object
from nitro_operator.memory import JobMemory
from nitro_operator.observed import Observed
from nitro_operator.stage import Judgement


@dataclass
class Pass:
    """One reconcile of one job: what was found, and what it leads to."""

    key: JobKey
    job: Object
    memory: JobMemory
    observed: Observed
    judgement: Judgement
    now: float
    """Monotonic, in seconds."""
    server_now: datetime
    backend: ActorBackend | None = None
    waiting: Problem | None = None
    leaving: list[str] = field(default_factory=list)
    """Actors of the run before, which have to go first."""
    requested: int = 0
    granted: int = 0
    silent: str | None = None
    """What the learner says of actors none of which has answered it yet."""
    heard: bool = False
    again: list[float] = field(default_factory=list)
    """Seconds after which to look again."""
