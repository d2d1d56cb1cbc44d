"""Stop conditions, one by one and together."""

import pytest

from nitro_api.stop import Stop
from nitro_learner.stop import Progress, decide


def _stop(**limits: object) -> Stop:
    return Stop.model_validate({"rounds": 10, **limits})


@pytest.mark.parametrize(
    ("limits", "progress", "reason"),
    [
        ({}, Progress(9, None, 0.0, 0.0), None),
        ({}, Progress(10, None, 0.0, 0.0), "RoundsDone"),
        ({"target_reward": 100.0}, Progress(1, 99.9, 0.0, 0.0), None),
        ({"target_reward": 100.0}, Progress(1, 100.0, 0.0, 0.0), "TargetReached"),
        ({"target_reward": -5.0}, Progress(1, None, 0.0, 0.0), None),
        ({"budget_dollars": 0.5}, Progress(1, None, 0.499, 0.0), None),
        ({"budget_dollars": 0.5}, Progress(1, None, 0.5, 0.0), "BudgetSpent"),
        ({"duration": "1m"}, Progress(1, None, 0.0, 59.9), None),
        ({"duration": "1m"}, Progress(1, None, 0.0, 60.0), "TimeUp"),
        (
            {"target_reward": 1.0, "budget_dollars": 0.5, "duration": "1s"},
            Progress(10, 2.0, 1.0, 9.0),
            "TargetReached",
        ),
        ({"budget_dollars": 0.5, "duration": "1s"}, Progress(10, 2.0, 1.0, 9.0), "BudgetSpent"),
    ],
)
def test_decide(limits: dict, progress: Progress, reason: str | None) -> None:
    decided = decide(_stop(**limits), progress)
    assert (decided.reason if decided else None) == reason


def test_the_sentence_has_the_numbers() -> None:
    decided = decide(_stop(target_reward=1500.0), Progress(3, 1512.3, 0.0, 0.0))
    assert decided is not None
    assert decided.message == "the evaluation mean 1512.3 reached the target reward 1500"
