"""Problems with a job's actors: a limit keeps them back, they come too late, or rollouts take too long."""

import math
from collections.abc import Sequence
from statistics import fmean

from nitro_api.pools.holding import PodTimes
from nitro_api.spec.job import JobSpec
from nitro_api.spec.learner_status import ROLLOUTS_CUT, HistoryEntry, TrainingStatus
from nitro_api.spec.pods import MOST_PER_POD
from nitro_api.spec.scaling import LONGEST_HOLD
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.scaling.platform import Room

ROUNDS = 10
FEWEST_ROUNDS = 5
"""Fewer rounds give no warning: a job's first rounds start actors, so they say nothing of later ones."""
LATE_SHARE = 0.5
LATE_WAVES = 2.0
"""Sampling that takes less than this many rollouts went in one wave: actors that came late cost little."""


def limit_problem(minimum: int, platform: Room, namespace: Room, *, per_pod: int = 1) -> Problem:
    """The reason why a job waits for the limit of the platform or of its namespace."""
    needs, fields = f"the job needs {minimum} actors", "spec.scaling.minActors"
    if per_pod > 1:
        needs, fields = f"{needs} in pods of {per_pod}", f"{fields} or spec.actor.perPod"
    reason, room, whose, value = "PlatformLimit", platform, "the platform", "platform.maxActors"
    if namespace.limit < platform.limit and minimum > namespace.limit - namespace.taken:
        reason, room = "NamespaceLimit", namespace
        whose, value = "this namespace", "platform.namespaceMaxActors"
    if minimum > room.limit:
        remedy = f"lower {fields} in a new job, or raise the chart's {value}"
        told = f"{needs}, {whose} may have {room.limit} in all: {remedy}."
        return Problem(reason, told)
    remedy = "it starts by itself when jobs end that hold actors or have waited longer"
    told = f"{needs}, and other jobs hold {room.taken} of the {room.limit} of {whose}"
    return Problem(reason, f"{told}: {remedy}.")


def lateness(
    training: TrainingStatus | None, times: PodTimes | None, spec: JobSpec, granted: int
) -> Problem | None:
    """The problem that fewer than half of the last rounds' slots found a ready actor, and that these rounds
    sampled in waves for it; None otherwise.

    Args:
        times: of the pods; None for a backend without pods.
        spec: of the job, resolved.
        granted: actors that the job may have now. That there are no more is no lateness.
    """
    rounds = ((training.history if training is not None else None) or [])[-ROUNDS:]
    known = [entry for entry in rounds if entry.actors is not None and entry.ready is not None]
    if len(known) < FEWEST_ROUNDS or times is None:
        return None
    slots = sum(min(entry.actors or 0, max(granted, 1)) for entry in known)
    ready = sum(min(entry.ready or 0, max(granted, 1)) for entry in known)
    waves = [entry.waves for entry in known if entry.waves is not None]
    if ready >= LATE_SHARE * slots or (waves and fmean(waves) < LATE_WAVES):
        return None
    seconds = _seconds(rounds)
    took = f", and a round took {seconds:.0f} s" if seconds else ""
    if waves:
        took += f", its sampling {fmean(waves):.1f} times as long as a rollout"
    return Problem(
        "ActorsLate",
        f"only {ready} of the last {slots} slots found a ready actor: a pod takes {times.start:.0f} s to "
        f"start{took}. {_remedy(spec, seconds, times, most=max(entry.actors or 0 for entry in known))}",
    )


def cut(training: TrainingStatus | None) -> Problem | None:
    """The problem that rollouts of the last round were cut at their time limit; None otherwise."""
    if training is None or training.reason != ROLLOUTS_CUT:
        return None
    return Problem(
        ROLLOUTS_CUT,
        f"{training.message or 'requests to actors were cut'}. An actor goes on with such a rollout for as "
        "long again, and its result is used if it comes in time; the round waits for it. Give actors more "
        "CPU (spec.actor.resources, in a suspended job), or in a new job a larger spec.actor.timeoutSeconds "
        "or a smaller spec.environment.rolloutLength.",
    )


def _seconds(rounds: Sequence[HistoryEntry]) -> float:
    """The mean time of a round; 0 if it is not known."""
    known = [entry.seconds for entry in rounds if entry.seconds is not None]
    return fmean(known) if known else 0.0


def _remedy(spec: JobSpec, seconds: float, times: PodTimes, most: int) -> str:
    """What may help this job: what it has already is not named."""
    scaling, remedies = spec.scaling, []
    hold = min(max(math.ceil(2 * seconds + times.start), 60), LONGEST_HOLD)
    if scaling.hold == "auto" or scaling.hold < hold:
        remedies.append(
            f"hold actors longer (spec.scaling.hold: {hold}, in seconds; it may change while the job runs)"
        )
    if spec.actor.per_pod < min(MOST_PER_POD, most):
        remedies.append("in a new job use larger and fewer pods (spec.actor.perPod)")
    if scaling.record.plan != "constant" and scaling.min_actors < most:
        remedies.append("in a new job set a larger spec.scaling.minActors")
    remedies.append("in a new job sample longer in a round (spec.environment.rolloutLength)")
    remedies.append("in a new job use backend.type: Lambda")
    return f"What may help: {'; or '.join(remedies)}."
