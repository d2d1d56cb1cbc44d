"""When a run ends: rounds, actor-rounds, steps, target reward, patience, budget or wall-clock limit,
whichever holds first; and how long it goes on until then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_high

from nitro_api.spec.stop import Stop

KEPT = 10
"""Moments that a run's estimate is made from: the ends of so many rounds, and so one round fewer."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands at the end of a round.

    Attributes:
        actor_rounds: rollouts that the rounds learned from.
        evaluation_mean: newest evaluation's mean return, None before the first.
        seconds: wall-clock time of all sittings of the run together.
        evaluated: round after which the newest evaluation's policy was trained, None before the first.
        best: the same of the best evaluation.
        best_mean: that one's mean return.
    """

    round: int
    actor_rounds: int
    env_steps: int
    evaluation_mean: float | None
    cost: float
    seconds: float
    evaluated: int | None = None
    best: int | None = None
    best_mean: float | None = None

    @property
    def unimproved(self) -> int:
        """Rounds between the best evaluation and the newest one. Rounds after the newest do not count: nobody
        knows yet whether they have made the policy better."""
        return 0 if self.evaluated is None or self.best is None else self.evaluated - self.best


@dataclass(frozen=True)
class StopReason:
    """Why a run ends: a word for programs (CamelCase) and a sentence for people."""

    reason: str
    message: str


def decide(limits: Stop, progress: Progress) -> StopReason | None:
    """The reason to stop, or None to go on. A reached target is named before limits that were hit in the same
    round.
    """
    target, mean = limits.target_reward, progress.evaluation_mean
    if target is not None and mean is not None and mean >= target:
        return StopReason(
            "TargetReached", f"the evaluation mean {mean:.6g} reached the target reward {target:.6g}"
        )
    if limits.patience is not None and progress.unimproved >= limits.patience:
        return StopReason(
            "NoBetterEvaluation",
            f"no evaluation was better than {progress.best_mean:.6g}, of round {progress.best}, in the "
            f"{progress.unimproved} rounds that followed it",
        )
    if limits.budget_dollars is not None and progress.cost >= limits.budget_dollars:
        return StopReason(
            "BudgetSpent", f"the cost ${progress.cost:.4f} reached the budget ${limits.budget_dollars:.4f}"
        )
    if progress.round >= limits.rounds:
        return StopReason("RoundsDone", f"all {limits.rounds} rounds are done")
    if limits.actor_rounds is not None and progress.actor_rounds >= limits.actor_rounds:
        return StopReason(
            "ActorRoundsDone",
            f"{progress.actor_rounds:,} actor-rounds reached the limit of {limits.actor_rounds:,}",
        )
    if limits.env_steps is not None and progress.env_steps >= limits.env_steps:
        return StopReason(
            "EnvStepsDone", f"{progress.env_steps:,} steps reached the limit of {limits.env_steps:,}"
        )
    duration = limits.duration_seconds
    if duration is not None and progress.seconds >= duration:
        return StopReason("TimeUp", f"the run took {progress.seconds:.0f} s, its limit is {limits.duration}")
    return None


def extended(limits: Stop, progress: Progress) -> dict[str, int | float | str]:
    """Fields of spec.stop with which a run goes on that these limits have ended: twice what it has done or
    spent, and a higher target."""
    raised: dict[str, int | float | str] = {}
    limits = limits.model_copy()
    while why := decide(limits, progress):
        match why.reason:
            case "TargetReached":
                mean = progress.evaluation_mean or 0.0
                limits.target_reward = raised["targetReward"] = float(f"{mean + max(1, abs(mean)):.3g}")
            case "NoBetterEvaluation":
                limits.patience = raised["patience"] = 2 * progress.unimproved
            case "BudgetSpent":
                limits.budget_dollars = raised["budgetDollars"] = float(f"{2 * progress.cost:.2g}")
            case "RoundsDone":
                limits.rounds = raised["rounds"] = 2 * progress.round
            case "ActorRoundsDone":
                limits.actor_rounds = raised["actorRounds"] = 2 * progress.actor_rounds
            case "EnvStepsDone":
                limits.env_steps = raised["envSteps"] = 2 * progress.env_steps
            case _:
                limits.duration = raised["duration"] = f"{math.ceil(2 * progress.seconds)}s"
    return raised


@dataclass(frozen=True)
class Forecast:
    """How far a run is on its way to the stop condition that ends it, as far as that can be foreseen.

    Attributes:
        by: the condition, as the field of spec.stop is named.
        share: of that condition, from 0 to 1.
        seconds: until it holds; None where no round of this sitting has ended yet.
    """

    by: str
    share: float
    seconds: float | None = None


ENDED_BY = {
    "TargetReached": "targetReward",
    "NoBetterEvaluation": "patience",
    "BudgetSpent": "budgetDollars",
    "RoundsDone": "rounds",
    "ActorRoundsDone": "actorRounds",
    "EnvStepsDone": "envSteps",
    "TimeUp": "duration",
}
"""Reasons of `decide` -> the fields of spec.stop that they belong to."""


def forecast(measured: Sequence[Progress], limits: Stop) -> Forecast:
    """How far a run is. Nobody knows when a target reward is reached, or evaluations get no better.

    Args:
        measured: where the run stood at the ends of its last rounds; at least one of them.
    """
    amounts = [_amounts(progress) for progress in measured]
    limited: dict[str, float | None] = {
        "rounds": limits.rounds,
        "actorRounds": limits.actor_rounds,
        "envSteps": limits.env_steps,
        "budgetDollars": limits.budget_dollars,
        "seconds": limits.duration_seconds,
    }
    ends = {name: end for name, end in limited.items() if end is not None}
    shares = {name: min(1.0, amounts[-1][name] / end) for name, end in ends.items()}
    nearest = _nearest(amounts, ends, whole=True)
    by, seconds = nearest or (max(shares, key=shares.__getitem__), None)
    return Forecast("duration" if by == "seconds" else by, shares[by], seconds)


def seconds_left(measured: Sequence[Mapping[str, float]], limits: Mapping[str, float]) -> float | None:
    """Seconds until the first of the limits is reached; None where nothing is known of any.

    Args:
        measured: amounts by name, `seconds` among them, at moments one after the other. What lies between two
            of them is a step.
        limits: amounts at which it ends, by name.
    """
    nearest = _nearest(measured, limits, whole=False)
    return None if nearest is None else nearest[1]


def _nearest(
    measured: Sequence[Mapping[str, float]], limits: Mapping[str, float], *, whole: bool
) -> tuple[str, float] | None:
    """The limit that is reached first, and the seconds until then; None where nothing is known of any.

    Args:
        measured, limits: see `seconds_left`.
        whole: whether it ends with a whole step only.
    """
    steps = list(pairwise(measured))
    if not steps:
        return None
    # The median: a round that compiles, evaluates, or in which the machine slept says little of the others.
    usual = {
        name: median_high(after[name] - before[name] for before, after in steps) for name in measured[-1]
    }
    counts = {
        name: max(0.0, limit - measured[-1][name]) / usual[name]
        for name, limit in limits.items()
        if usual[name] > 0
    }
    if not counts:
        return None
    first = min(counts, key=counts.__getitem__)
    # Costs are sums of floats, and must not add a round that the limit does not.
    return first, usual["seconds"] * (math.ceil(counts[first] - 1e-9) if whole else counts[first])


def _amounts(progress: Progress) -> dict[str, float]:
    """What a run has done and spent, by the fields of spec.stop that limit it; its time as `seconds`."""
    return {
        "rounds": progress.round,
        "actorRounds": progress.actor_rounds,
        "envSteps": progress.env_steps,
        "budgetDollars": progress.cost,
        "seconds": progress.seconds,
    }
