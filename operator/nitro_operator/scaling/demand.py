"""The number of actor pods that a job should hold."""

from __future__ import annotations

from nitro_api import JobSpec
from nitro_api.spec.status import ACTORS_SILENT, TrainingStatus

HEARTBEAT_SECONDS = 60.0
"""Time without a report after which a learner counts as silent; it reports every ten seconds."""


def requested(spec: JobSpec, training: TrainingStatus | None) -> int:
    """Actors that the learner requests for its next round; before its first report the job's
    initialActors."""
    asked = None
    if training is not None:  # a learner of an older release reports requestedActors only
        asked = (training.requests or {}).get("actors", training.requested_actors)
    return _clip(spec, spec.scaling.initial_actors if asked is None else asked)


def forecast(spec: JobSpec, training: TrainingStatus | None) -> int:
    """Actors to hold: the larger of the last two requests.

    Pods outlive a burst by 10 to 30 s anyway, and a round that asks for fewer is often followed by one that
    asks for more. The request before the last is the number of actors of the last finished round, so nothing
    has to be remembered.
    """
    now = requested(spec, training)
    last = training.history[-1].actors if training is not None and training.history else None
    return max(now, _clip(spec, last)) if last is not None else now


def silent(training: TrainingStatus | None) -> str | None:
    """The learner's message while no actor has answered it; None otherwise."""
    if training is None or training.reason != ACTORS_SILENT:
        return None
    return training.message


def score(training: TrainingStatus | None) -> float:
    """The boosting score S_k, from 0 to 1: the status takes no other. It is 1 without a report: a job's first
    rounds are its most valuable."""
    found = training.boosting_score if training is not None else None
    return 1.0 if found is None else found


def _clip(spec: JobSpec, actors: int) -> int:
    return min(max(actors, spec.scaling.min_actors), spec.scaling.max_actors)
