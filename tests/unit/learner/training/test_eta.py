"""How far a run is, and the time left: by the nearest of its stops."""

import pytest

from nitro_api.spec.stop import Stop
from nitro_learner.training.stop import Forecast, Progress, forecast, seconds_left


def _measured(*seconds: float, actors: int = 4, dollars: float = 0.125) -> list[Progress]:
    """A run whose rounds took so long, each with as many actors, steps and dollars."""
    found = [Progress(0, 0, 0, None, 0.0, 0.0)]
    for number, took in enumerate(seconds, 1):
        found.append(
            Progress(number, actors * number, 1000 * number, None, dollars * number, found[-1].seconds + took)
        )
    return found


@pytest.mark.parametrize(
    ("limits", "left", "by", "share"),
    [
        ({}, 1998 * 2.0, "rounds", 0.001),
        ({"env_steps": 10_000}, 8 * 2.0, "envSteps", 0.2),
        ({"env_steps": 10_001}, 9 * 2.0, "envSteps", 2000 / 10_001),  # a run ends with a whole round
        ({"actor_rounds": 20}, 3 * 2.0, "actorRounds", 0.4),
        ({"budget_dollars": 1.0}, 6 * 2.0, "budgetDollars", 0.25),
        ({"duration": "15s"}, 6 * 2.0, "duration", 4 / 15),
        ({"target_reward": 5.0}, 1998 * 2.0, "rounds", 0.001),  # nobody knows when
        ({"env_steps": 10_000, "actor_rounds": 20, "budget_dollars": 9.0}, 3 * 2.0, "actorRounds", 0.4),
        ({"env_steps": 1000}, 0.0, "envSteps", 1.0),  # already reached, by a limit that was lowered
    ],
)
def test_the_nearest_stop_counts(limits: dict[str, float | str], left: float, by: str, share: float) -> None:
    stop = Stop.model_validate({"rounds": 2000, **limits})
    found = forecast(_measured(2.0, 2.0), stop)
    assert (found.seconds, found.by, found.share) == (pytest.approx(left), by, pytest.approx(share))


def test_nine_minutes_are_not_three_hours_and_a_half() -> None:
    """1,500,000 steps of 16,384 each are 92 rounds of 6 s, and not 2,000."""
    measured = [Progress(n, 8 * n, 16_384 * n, None, 0.0, 6.25 * n) for n in (1, 2, 3)]
    assert forecast(measured, Stop(rounds=2000, env_steps=1_500_000)).seconds == 89 * 6.25


def test_one_slow_round_says_little_of_the_others() -> None:
    assert forecast(_measured(60.0, 2.0, 2.0), Stop(rounds=10)).seconds == 7 * 2.0


def test_no_time_is_known_before_a_round_and_a_limit_that_does_not_come_nearer_ends_nothing() -> None:
    assert forecast(_measured(), Stop(rounds=10)) == Forecast("rounds", 0.0)
    resumed = _measured(2.0, 2.0)[-1:]
    assert forecast(resumed, Stop(rounds=10, env_steps=4000)) == Forecast("envSteps", 0.5)
    free = _measured(2.0, 2.0, dollars=0.0)
    assert forecast(free, Stop(rounds=10, budget_dollars=1.0)) == Forecast("rounds", 0.2, 8 * 2.0)


def test_other_work_ends_within_a_step_too() -> None:
    assert seconds_left([{"seconds": 0.0, "runs": 1.0}, {"seconds": 5.0, "runs": 1.0}], {"runs": 4.0}) is None
    assert seconds_left([{"seconds": 0.0, "runs": 1.0}, {"seconds": 5.0, "runs": 1.5}], {"runs": 4.0}) == 25.0
