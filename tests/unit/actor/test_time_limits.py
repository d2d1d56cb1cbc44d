"""A time limit is counted here only where nothing else goes with it: whatever else wraps stays on."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from actor_support import lone_environment as environment
from nitro_actor import wire
from nitro_actor.environment import Environment

ACTIONS = np.ones(1, np.int64)


def played(env: Environment, steps: int) -> tuple[list[float], list[bool]]:
    """Rewards and truncations of one copy, which begins anew where an episode ends."""
    rewards, ends = [], []
    for _ in range(steps):
        reward, terminated, truncated = env.step(ACTIONS)
        rewards.append(float(reward[0]))
        ends.append(bool(truncated[0]))
        if terminated[0] or truncated[0]:
            env.reset_one(0)
    return rewards, ends


def test_a_class_derived_from_the_time_limit_stays_on() -> None:
    env = environment("scaled", 1, "limited_environments:scaled")
    env.reset([0])
    rewards, ends = played(env, 14)
    assert rewards == [100.0] * 14
    assert ends == ([False] * 6 + [True]) * 2


def test_wrappers_of_a_registered_id_find_its_time_limit() -> None:
    plain = gymnasium.make("limited_environments:Timed-v0")
    env = environment("limited_environments:Timed-v0", 1)
    expected, _ = plain.reset(seed=3)
    env.reset([3])
    for _ in range(20):
        np.testing.assert_array_equal(env.observations[0], np.asarray(expected, np.float32))
        expected, _, _, cut, _ = plain.step(0)
        _, _, truncated = env.step(ACTIONS)
        assert truncated[0] == cut
    assert cut


def test_a_limit_of_an_argument_reaches_the_wrappers_too() -> None:
    env = environment("limited_environments:Timed-v0", 1, max_episode_steps=5)
    env.reset([0])
    assert played(env, 5)[1] == [False] * 4 + [True]
    assert env.observations[0, -1] == 0.0, "the next episode begins at time 0"


@pytest.mark.parametrize(
    ("name", "entry_point"),
    [("wrapped", "limited_environments:wrapped"), ("limited_environments:Outer-v0", None)],
)
def test_a_time_limit_inside_of_a_wrapper_goes_on_where_it_was(name: str, entry_point: str | None) -> None:
    first, second = (environment(name, 1, entry_point) for _ in range(2))
    assert first.spec.resumable
    first.reset([1])
    second.reset([2])
    played(first, 5)
    _, state = wire.decode(wire.encode({}, first.snapshot()))
    second.restore(state)
    found = played(second, 12)
    assert found == played(first, 12)
    assert found[1].index(True) == 2, "three steps of eight are left"


def test_a_class_derived_from_a_wrapper_of_gymnasium_may_hold_state() -> None:
    assert not environment("ordered", 1, "limited_environments:ordered").spec.resumable


@pytest.mark.parametrize(("name", "limit"), [("CartPole-v1", 500), ("MountainCar-v0", 200)])
def test_a_plain_time_limit_is_counted_here(name: str, limit: Any) -> None:
    env = environment(name, 1)
    assert (env.spec.time_limit, env.spec.resumable) == (limit, True)
