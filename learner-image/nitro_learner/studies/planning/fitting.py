"""From measured rounds to the times of the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from nitro_learner.studies.planning.model import Line, Room, RoundShape, Times, makespan, round_time

OUTSIDE = 0.1
"""Share of the measured rounds that lie below the plan's interval, and above it."""


@dataclass(frozen=True)
class ObservedRound:
    """One round of a training, or of a probe. Unit of all times: seconds.

    Attributes:
        actors: I_k.
        learned: rollouts that it learned from.
        seconds: its wall time.
        sample, update: of it, for which it waited for fragments and for the update.
        detect, evaluate: of it, for which it waited for the detector and the evaluation alone.
        actor: of a rollout, by the actor's own clock.
        detector: of the measurement of the round before, most of it beside this round's sampling.
        evaluation: of its evaluation, all requests together; 0 = it had none.
    """

    actors: int
    learned: int
    seconds: float
    sample: float
    update: float
    detect: float
    evaluate: float
    actor: float
    detector: float = 0.0
    evaluation: float = 0.0


def fit(runs: Sequence[Sequence[ObservedRound]], room: Room, rounds: RoundShape, start: float) -> Times:
    """The times of the model, from the rounds of trainings that were measured in `room`, one at least each.

    A first round is no example of others, where there are others.
    """
    measured = [one for run in runs for one in run[1:] or run]
    plain = [one for one in measured if not one.evaluation] or [*measured]
    fewest = min(one.actors for one in plain)
    full = [one for one in plain if one.actors >= room.places]
    alone = median(one.actor for one in plain if one.actors == fewest)
    times = Times(
        actor=alone,
        crowded=median(one.actor for one in full or plain),
        call=median(_call(one, room, rounds) for one in plain),
        update=_line([one.learned for one in plain], [one.update for one in plain]),
        rest=median(
            max(0.0, one.seconds - one.sample - one.update - one.detect - one.evaluate) for one in plain
        ),
        detector=median(one.detector for one in plain),
        evaluation=fmean([one.evaluation for one in measured if one.evaluation] or [0.0]),
        start=start,
    )
    # Without the evaluation, which these rounds do not have.
    bare = replace(times, evaluation=0.0)

    def modelled(one: ObservedRound) -> float:
        return round_time(bare, one.actors, crowded(room, one.actors), rounds).total

    ratios = [one.seconds / modelled(one) for one in plain]
    first = fmean(max(0.0, run[0].seconds - modelled(run[0])) for run in runs)
    low, high = (float(bound) for bound in np.quantile(ratios, [OUTSIDE, 1 - OUTSIDE]))
    return replace(times, low=low, high=high, first=first)


def crowded(room: Room, actors: int) -> Room:
    """The room of a machine on which so many actors work: all processes, or fewer."""
    return replace(room, crowded=actors >= room.places)


def _call(one: ObservedRound, room: Room, rounds: RoundShape) -> float:
    """What each rollout of a round took beyond the actor's own time, if all took as long."""
    places = min(one.actors, room.places)
    ideal = makespan(one.actors, min(rounds.early, one.actors), one.detector, places, one.actor)
    beyond = one.sample + one.detect - max(ideal, one.detector)
    return max(0.0, beyond) / math.ceil(one.actors / places)


def _line(sizes: Sequence[int], seconds: Sequence[float]) -> Line:
    """The line through the points, by least squares, which never falls and is never below 0."""
    through_zero = Line(0.0, float(np.dot(sizes, seconds) / np.dot(sizes, sizes)))
    if len(set(sizes)) < 2:
        return through_zero
    each, base = (float(value) for value in np.polyfit(sizes, seconds, 1))
    if each < 0:
        return Line(fmean(seconds), 0.0)
    return through_zero if base < 0 else Line(base, each)
