"""What a resolved job says of its end before it begins: after how many rounds it comes, and after how many
steps."""

from __future__ import annotations

import math

from nitro_api.spec.job import JobSpec
from nitro_api.spec.scaling import Scaling


def known_rounds(spec: JobSpec) -> int | None:
    """The rounds after which training ends by stop.rounds, .actorRounds or .envSteps; None if that depends on
    a budget in dollars, on a duration, on what a scaler decides, or on which actors of an off-policy round
    answer. A target may end it sooner.
    """
    stop, length = spec.stop, spec.environment.rollout_length
    if stop.budget_dollars is not None or stop.duration is not None:
        return None
    limits = [stop.actor_rounds, None if stop.env_steps is None else math.ceil(stop.env_steps / length)]
    rollouts = min((limit for limit in limits if limit is not None), default=None)
    if rollouts is None:
        return stop.rounds
    fewest, most = _least(spec.scaling), _most(spec.scaling)
    if spec.algorithm.record.feeding == "rounds" and fewest == most:
        return min(stop.rounds, _rounds_of(fewest, rollouts))
    # Even if every round has as many actors as it may have, the limit of rounds comes first.
    return stop.rounds if stop.rounds <= _rounds_of(most, rollouts) else None


def least_steps(spec: JobSpec) -> int:
    """The fewest environment steps that training has before its end, by stop.rounds, .actorRounds and
    .envSteps. An off-policy round counts as one with minActors, which it waits for. A budget in dollars or a
    duration may end it at once: 0."""
    if spec.stop.budget_dollars is not None or spec.stop.duration is not None:
        return 0
    stop, length = spec.stop, spec.environment.rollout_length
    least = length * _rollouts_in(_least(spec.scaling), stop.rounds)
    if stop.actor_rounds is not None:
        least = min(least, length * stop.actor_rounds)
    return least if stop.env_steps is None else min(least, stop.env_steps)


def _least(scaling: Scaling) -> list[int]:
    """The fewest actors of round 1, 2, ...; later rounds have the last entry."""
    return scaling.planned or [scaling.initial_actors, scaling.min_actors]


def _most(scaling: Scaling) -> list[int]:
    """The most actors of round 1, 2, ...; later rounds have the last entry."""
    return scaling.planned or [scaling.initial_actors, scaling.max_actors]


def _rollouts_in(actors: list[int], rounds: int) -> int:
    """The actors of all rounds, added up."""
    return sum(actors[:rounds]) + max(0, rounds - len(actors)) * actors[-1]


def _rounds_of(actors: list[int], rollouts: int) -> int:
    """The first round at whose end so many rollouts have been learned from."""
    done = 0
    for round, number in enumerate(actors, start=1):
        done += number
        if done >= rollouts:
            return round
    return len(actors) + math.ceil((rollouts - done) / actors[-1])
