"""Stop conditions, one by one and together."""

from dataclasses import replace

import pytest

from nitro_api.spec.stop import Stop
from nitro_learner.training import stop
from nitro_learner.training.stop import decide


def _stop(**limits: object) -> Stop:
    return Stop.model_validate({"rounds": 10, **limits})


def _progress(
    round: int, mean: float | None, cost: float, seconds: float, *, actors: int = 4, steps: int = 64
) -> stop.Progress:
    """After `round` rounds of `actors` actors with `steps` steps each."""
    return stop.Progress(round, round * actors, round * actors * steps, mean, cost, seconds)


@pytest.mark.parametrize(
    ("limits", "progress", "reason"),
    [
        ({}, _progress(9, None, 0.0, 0.0), None),
        ({}, _progress(10, None, 0.0, 0.0), "RoundsDone"),
        ({"target_reward": 100.0}, _progress(1, 99.9, 0.0, 0.0), None),
        ({"target_reward": 100.0}, _progress(1, 100.0, 0.0, 0.0), "TargetReached"),
        ({"target_reward": -5.0}, _progress(1, None, 0.0, 0.0), None),
        ({"budget_dollars": 0.5}, _progress(1, None, 0.499, 0.0), None),
        ({"budget_dollars": 0.5}, _progress(1, None, 0.5, 0.0), "BudgetSpent"),
        ({"actor_rounds": 12}, _progress(2, None, 0.0, 0.0), None),
        ({"actor_rounds": 12}, _progress(3, None, 0.0, 0.0), "ActorRoundsDone"),
        ({"actor_rounds": 13}, _progress(4, None, 0.0, 0.0), "ActorRoundsDone"),
        ({"env_steps": 769}, _progress(3, None, 0.0, 0.0), None),
        ({"env_steps": 768}, _progress(3, None, 0.0, 0.0), "EnvStepsDone"),
        ({"duration": "1m"}, _progress(1, None, 0.0, 59.9), None),
        ({"duration": "1m"}, _progress(1, None, 0.0, 60.0), "TimeUp"),
        (
            {"target_reward": 1.0, "budget_dollars": 0.5, "duration": "1s"},
            _progress(10, 2.0, 1.0, 9.0),
            "TargetReached",
        ),
        ({"budget_dollars": 0.5, "duration": "1s"}, _progress(10, 2.0, 1.0, 9.0), "BudgetSpent"),
    ],
)
def test_the_first_limit_that_is_reached_stops_the_run(
    limits: dict, progress: stop.Progress, reason: str | None
) -> None:
    decided = decide(_stop(**limits), progress)
    assert (decided.reason if decided else None) == reason


@pytest.mark.parametrize(
    ("evaluated", "best", "stops"),
    [
        (None, None, False),  # before the first evaluation
        (4, 4, False),
        (8, 4, False),
        (9, 4, True),
        (20, 4, True),
    ],
)
def test_patience_ends_a_run_by_the_rounds_between_best_and_newest_evaluation(
    evaluated: int | None, best: int | None, *, stops: bool
) -> None:
    progress = replace(
        _progress(8, 1.0, 0.0, 0.0),
        evaluated=evaluated,
        best=best,
        best_mean=None if best is None else 12.5,
    )
    decided = decide(_stop(patience=5), progress)
    assert (decided.reason if decided else None) == ("NoBetterEvaluation" if stops else None)
    if decided and evaluated == 9:
        assert decided.message == (
            "no evaluation was better than 12.5, of round 4, in the 5 rounds that followed it"
        )
        assert stop.extended(_stop(patience=5), progress) == {"patience": 10}


def test_the_reason_contains_the_numbers() -> None:
    decided = decide(_stop(target_reward=1500.0), _progress(3, 1512.3, 0.0, 0.0))
    assert decided is not None
    assert decided.message == "the evaluation mean 1512.3 reached the target reward 1500"


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ({}, {"rounds": 20}),
        ({"target_reward": 50.0}, {"targetReward": 100.0, "rounds": 20}),
        ({"budget_dollars": 0.5, "rounds": 99}, {"budgetDollars": 1.0}),
        ({"actor_rounds": 40, "env_steps": 9}, {"rounds": 20, "actorRounds": 80, "envSteps": 5120}),
        ({"duration": "1m", "rounds": 99}, {"duration": "121s"}),
    ],
)
def test_extended_limits_let_a_run_continue(limits: dict[str, object], raised: dict[str, object]) -> None:
    ended = _progress(10, 50.0, 0.5, 60.1)
    assert stop.extended(_stop(**limits), ended) == raised
    snake = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): v for name, v in raised.items()}
    assert decide(_stop(**{**limits, **snake}), ended) is None
