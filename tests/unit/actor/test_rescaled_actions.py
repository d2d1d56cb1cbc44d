"""rescaleActions: a policy's -1 to 1 stand for the bounds of the environment's actions."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from actor_support import Alone, action_of, policies_of, rollout, weights
from nitro_actor.actions import Continuous, action_space
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from scaled_environments import BEST, HIGH, LOW

_LARGEST = float(np.finfo(np.float32).max)


def made(entry_point: str | None, id_: str = "test", *, rescale: bool = True, **kwargs: Any) -> Environment:
    named = entry_point and f"scaled_environments:{entry_point}"
    return make_env(EnvironmentConfig(id_, 3, kwargs, named, rescale_actions=rescale))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fragment_is_as_with_gymnasiums_wrapper(dtype: str) -> None:
    ours, theirs = made("Wide", dtype=dtype), made("rescaled", rescale=False, dtype=dtype)
    fragments = [
        rollout(one, policies_of(weights(one.spec), one.spec), seed=3, steps=300, state={})
        for one in (ours, theirs)
    ]
    for name in ("actions", "log_probs", "distribution"):
        np.testing.assert_array_equal(fragments[0][name], fragments[1][name])
    np.testing.assert_allclose(fragments[0]["rewards"], fragments[1]["rewards"], atol=1e-5)
    assert abs(fragments[0]["actions"]).max() < 10, "fragments hold the policy's own numbers"
    rewards = fragments[0]["rewards"]
    assert rewards.min() < (LOW - BEST) / BEST * 0.9, "the policy reaches the lower bound"


def test_ends_are_the_bounds_and_nothing_overflows() -> None:
    low, high = np.array([-3e38, 0, 2.5], np.float32), np.array([3e38, 1000, 2.5], np.float32)
    space = Continuous(low, high, rescaled=True)
    with np.errstate(all="raise"):
        ends = space.native(np.array([[-1, -1, -1], [1, 1, 1], [-9, 9, 0], [0, 0, 0]], np.float32))
    np.testing.assert_array_equal(ends[:2], [low, high])
    np.testing.assert_array_equal(ends[2], [low[0], high[1], 2.5])
    np.testing.assert_array_equal(ends[3], [0, 500, 2.5])
    assert ends.dtype == np.float32


def test_the_spec_says_so_and_is_read_again() -> None:
    spec = made("Wide").spec
    described = spec.to_json()["action"]
    assert described == {"kind": "continuous", "size": 1, "low": [LOW], "high": [HIGH], "rescaled": True}
    again = action_space(described)
    assert isinstance(again, Continuous)
    assert again.rescaled
    assert "rescaled" not in made("Wide", rescale=False).spec.to_json()["action"]


def test_an_engine_of_our_own_is_rescaled_too() -> None:
    plain, environment = Alone(made(None, "Humanoid-v5", rescale=False)), Alone(made(None, "Humanoid-v5"))
    actions = np.random.default_rng(0).uniform(-1, 1, (3, 17)).astype(np.float32)
    for one in (plain, environment):
        one.reset([1, 2, 3])
    plain.step(actions * np.float32(0.4))
    environment.step(actions)
    np.testing.assert_allclose(environment.frames, plain.frames, atol=1e-3)


def test_of_several_agents_those_with_a_box_are_rescaled() -> None:
    config = EnvironmentConfig("test", 2, {}, "scaled_environments:WideTeam", rescale_actions=True)
    environment = make_env(config)
    actions = {one["agents"][0]: one["action"] for one in environment.spec.to_json()["classes"].values()}
    assert actions["driver_0"]["rescaled"]
    assert "rescaled" not in actions["helper_0"]
    environment.reset([1, 2])
    driver = np.array([[[1.0]], [[2 * (BEST - LOW) / (HIGH - LOW) - 1]]], np.float32)
    step = environment.step({"driver": driver, "helper": np.zeros((2, 2), np.int64)})
    np.testing.assert_allclose(step.rewards["driver"][:, 0], [-(HIGH - BEST) / BEST, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("id_", "entry_point", "kwargs", "text"),
    [
        ("CartPole-v1", None, {}, "rescaleActions is for actions that are a Box, and these are discrete"),
        ("mpe2/simple_spread_v3", None, {}, "rescaleActions is for actions that are a Box"),
        (
            "test",
            "scaled_environments:Wide",
            {"high": np.inf},
            r"rescaleActions needs finite bounds, and actions\[0\] is from -500 to inf; give the action",
        ),
        ("test", "scaled_environments:Wide", {"high": _LARGEST}, "needs finite bounds"),
    ],
)
def test_what_cannot_be_rescaled_is_refused(
    id_: str, entry_point: str | None, kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(EnvironmentConfigError, match=text):
        make_env(EnvironmentConfig(id_, 1, kwargs, entry_point, rescale_actions=True))


def test_the_variable_of_the_actors_holds_it() -> None:
    read = EnvironmentConfig.from_json('{"id": "Pendulum-v1", "rescaleActions": true}')
    assert read.rescale_actions
    assert not EnvironmentConfig.from_json('{"id": "Pendulum-v1"}').rescale_actions
    environment = make_env(read)
    (row,) = action_of(environment.spec).native(np.array([[0.5]], np.float32))
    space = gymnasium.make("Pendulum-v1").action_space
    assert isinstance(space, gymnasium.spaces.Box)
    np.testing.assert_allclose(row, 0.5 * space.high)
