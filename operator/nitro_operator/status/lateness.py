"""Whether actors come too late for the rounds that ask for them."""

from __future__ import annotations

from nitro_api.pools.holding import PodTimes
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation.diagnosis import Problem

ROUNDS = 10
FEWEST_ROUNDS = 5
"""Fewer rounds give no warning: a job's first rounds start actors, so they say nothing of later ones."""
LATE_SHARE = 0.5


def lateness(training: TrainingStatus | None, times: PodTimes | None) -> Problem | None:
    """The problem that fewer than half of the last rounds' slots found a ready actor; None otherwise.

    Args:
        training: the learner's report.
        times: of the pods; None for a backend without pods.
    """
    rounds = ((training.history if training is not None else None) or [])[-ROUNDS:]
    known = [(one.actors, one.ready) for one in rounds if one.actors is not None and one.ready is not None]
    if len(known) < FEWEST_ROUNDS or times is None:
        return None
    slots, ready = (sum(column) for column in zip(*known, strict=True))
    if ready >= LATE_SHARE * slots:
        return None
    lengths = [one.seconds for one in rounds if one.seconds is not None]
    rest = f", and a round took {sum(lengths) / len(lengths):.0f} s" if lengths else ""
    return Problem(
        "ActorsLate",
        f"only {ready} of the last {slots} slots found a ready actor: a pod takes {times.start:.0f} s to "
        f"start{rest}. Hold actors longer (spec.scaling.hold, in seconds; it may change while the job runs), "
        "or in a new job use larger and fewer pods (spec.actor.perPod), a larger spec.scaling.minActors, or "
        "backend.type: Lambda.",
    )
