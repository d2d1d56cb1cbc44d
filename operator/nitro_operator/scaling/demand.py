"""What a job requests of its actors, and how many of them it should hold."""

import math
from statistics import fmean

from nitro_api import JobSpec
from nitro_api.pools.holding import WINDOW, Demand, Holding, PastRound, PodTimes, hold, hold_for
from nitro_api.resolution.resolve import fades
from nitro_api.spec.learner_status import ACTORS_SILENT, TrainingStatus


def bounds(spec: JobSpec, round: int, requested: int) -> tuple[int, int]:
    """Fewest and most actors that any later round can request.

    Args:
        round: last finished round; the present request is for the one after it.
    """
    scaling = spec.scaling
    fewest, most = scaling.min_actors, scaling.max_actors
    if scaling.record.plan == "constant":
        return requested, requested
    if scaling.record.plan == "schedule" and scaling.schedule:
        later = scaling.schedule[round + 1 :] or scaling.schedule[-1:]
        return min(later), max(later)
    if scaling.record.monotone:
        return max(fewest, requested), most
    if fades(spec):
        # The round after the present one is scored with d^(round + 1), and the score is 1 at most.
        return fewest, max(fewest, math.floor(most * scaling.decay ** (round + 1)))
    return fewest, most


HEARTBEAT_SECONDS = 60.0
"""Time without a report after which a learner counts as silent; it reports every ten seconds."""
ROUND_SECONDS = 10.0
"""Assumed length of a round, where the report does not have it."""


def requested(spec: JobSpec, training: TrainingStatus | None) -> int:
    """Actors that the learner requests for its next round; before its first report the job's
    initialActors."""
    asked = None
    if training is not None:  # a learner of an older release reports requestedActors only
        asked = (training.requests or {}).get("actors", training.requested_actors)
    return _clip(spec, spec.scaling.initial_actors if asked is None else asked)


def holding(
    spec: JobSpec, training: TrainingStatus | None, elapsed: float, held: int, times: PodTimes
) -> Holding:
    """The number of actors to hold now, as spec.scaling.hold wants it.

    Args:
        elapsed: seconds since its request.
        held: actors that are held now, starting ones included.
        times: to start an actor and to release one.
    """
    demand = demand_of(spec, training, elapsed)
    if spec.scaling.hold == "auto":
        return hold(demand, held, times)
    return hold_for(spec.scaling.hold, demand, held)


def demand_of(spec: JobSpec, training: TrainingStatus | None, elapsed: float) -> Demand:
    """The requests that a learner has reported. A number outside the job's range is clipped to it."""
    now = requested(spec, training)
    rounds = (training.history if training is not None else None) or []
    past = [
        PastRound(_clip(spec, round.actors), ROUND_SECONDS if round.seconds is None else round.seconds)
        for round in rounds
        if round.actors is not None
    ]
    worked = [round.actor_seconds for round in rounds[-WINDOW:] if round.actor_seconds is not None]
    done = (training.round if training is not None else None) or 0
    fewest, most = bounds(spec, done, now)
    return Demand(now, elapsed, past, fmean(worked) if worked else 0.0, fewest, most)


def silent(training: TrainingStatus | None) -> str | None:
    """The learner's message while no actor has answered it; None otherwise."""
    if training is None or training.reason != ACTORS_SILENT:
        return None
    return training.message


def score(training: TrainingStatus | None) -> float:
    """The boosting score S_k. The status accepts only 0 to 1. It is 1 without a report, because a job's first
    rounds are its most valuable."""
    value = training.boosting_score if training is not None else None
    return 1.0 if value is None else value


def _clip(spec: JobSpec, actors: int) -> int:
    return min(max(actors, spec.scaling.min_actors), spec.scaling.max_actors)
