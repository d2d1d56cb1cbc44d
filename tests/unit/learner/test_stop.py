"""Stop conditions, one by one and together."""

import pytest

from nitro_api.stop import Stop
from nitro_learner import stop
from nitro_learner.stop import decide


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
def test_decide(limits: dict, progress: stop.Progress, reason: str | None) -> None:
    decided = decide(_stop(**limits), progress)
    assert (decided.reason if decided else None) == reason


def test_the_sentence_has_the_numbers() -> None:
    decided = decide(_stop(target_reward=1500.0), _progress(3, 1512.3, 0.0, 0.0))
    assert decided is not None
    assert decided.message == "the evaluation mean 1512.3 reached the target reward 1500"
