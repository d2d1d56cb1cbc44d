"""The warning about bounds that the first policy hardly reaches."""

from typing import Any

import pytest

from actor_support import environment
from learner_support import job
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.run.checking.job_fit import first_actions, warnings


def described(*bounds: tuple[float | None, float | None], **action: Any) -> DescribedEnvironment:
    low, high = ([bound[side] for bound in bounds] for side in (0, 1))
    continuous = {"kind": "continuous", "size": len(bounds), "low": low, "high": high, **action}
    observation = {"shape": [2], "dtype": "float32", "frame": [2], "stack": 1}
    return DescribedEnvironment.from_json({"observation": observation, "action": continuous})


@pytest.mark.parametrize(
    "bounds",
    [
        [(-1, 1)],
        [(-0.4, 0.4)],  # Humanoid
        [(-2, 2)],  # Pendulum, Pusher
        [(-3, 3)],  # InvertedPendulum
        [(-1, 1), (0, 1), (0, 1)],  # CarRacing
        [(None, None), (0, None), (-3.4028234663852886e38, 3.4028234663852886e38)],  # no finite bounds
        [(2.5, 2.5)],  # there is nothing to learn
    ],
)
def test_bounds_that_the_first_policy_reaches_pass(bounds: Any) -> None:
    assert first_actions(described(*bounds)) == []


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([(0, 1000)], "actions[0] goes from 0 to 1000, but the first policy's actions are around 0 with a "),
        ([(0, 1000)], "most of them lie from -2 to 2, which reach 0.2 % of that range; set rescaleActions: "),
        ([(-1, 1), (-10, 10), (0, 5)], "actions[1] goes from -10 to 10 (2 of its 3 numbers are so), but the"),
        ([(-0.01, 0.01)], "of which 0.8 % lie between and all others are cut to a bound"),
        ([(40, 50)], "which reach 0 % of that range"),
        ([(-3, -2)], "which reach 0 % of that range"),
    ],
)
def test_bounds_far_from_it_are_told(bounds: Any, said: str) -> None:
    (warning,) = first_actions(described(*bounds))
    assert warning.startswith("spec.environment.rescaleActions: ")
    assert said in warning
    assert first_actions(described(*bounds, rescaled=True)) == []


def test_squashed_actions_reach_any_bounds() -> None:
    far = described((0, 1000))
    assert warnings(far, job(algorithm__name="sac").spec) == []
    assert len(warnings(far, job().spec)) == 1


def test_the_class_is_named() -> None:
    box = {"kind": "continuous", "size": 1, "low": [0.0], "high": [100.0]}
    one = {"agents": ["truck_0"], "observation": {}, "action": box}
    two = {"agents": ["light_0"], "observation": {}, "action": {"kind": "discrete", "n": 2}}
    (warning,) = first_actions(DescribedEnvironment.from_json({"classes": {"truck": one, "light": two}}))
    assert "actions[0] of truck goes from 0 to 100" in warning


@pytest.mark.parametrize("id_", ["Humanoid-v5", "Pendulum-v1", "InvertedPendulum-v5", "Pusher-v5", "Ant-v5"])
def test_gymnasiums_own_environments_pass(id_: str) -> None:
    assert first_actions(DescribedEnvironment.from_json(environment(id_, 1).spec.to_json())) == []
