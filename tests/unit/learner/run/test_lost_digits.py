"""The warning about whole numbers that float32 does not hold."""

from typing import Any

import pytest

from actor_support import environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.run.checking.job_fit import lost_digits
from parallel_environments import several


def told(name: str, **kwargs: Any) -> list[str]:
    return lost_digits(
        DescribedEnvironment.from_json(
            environment("x", 1, f"space_environments:{name}", **kwargs).spec.to_json()
        )
    )


@pytest.mark.parametrize(
    ("observation", "largest"), [("long integers", 2**40), ("any integer", 2**63), ("a long part", 2**24 + 1)]
)
def test_observations_that_lose_digits_are_told(observation: str, largest: int) -> None:
    (warning,) = told("Spaced", observation=observation, action="discrete")
    assert warning.startswith("spec.environment: observations may hold whole numbers up to ")
    assert f"up to {largest}, but policies see float32, in which those beyond 16777216 lose" in warning


@pytest.mark.parametrize("observation", ["integers", "words", "bool", "pixels", "doubles", "nested"])
def test_others_are_not(observation: str) -> None:
    assert told("Spaced", observation=observation, action="discrete") == []


def test_the_class_is_named() -> None:
    entry = "space_environments:SpacedTeam"
    spec = DescribedEnvironment.from_json(
        several("x", 1, entry, observation="long integers", action="bits").spec.to_json()
    )
    (warning,) = lost_digits(spec)
    assert f"observations of a may hold whole numbers up to {2**40}," in warning
