"""What reset and step return is checked apart from what they raise: the message names the value."""

import re
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from actor_support import Game, policies_of, rollout, weights
from actor_support import lone_environment as environment
from faulty_environments import Given
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.engines.observations import Observations
from nitro_actor.environment import Environment
from parallel_environments import container, several

ACTIONS = np.zeros(1, np.int64)


def begun(**given: Any) -> Environment:
    env = environment("given", 1, "faulty_environments:Given", **given)
    env.reset([0])
    return env


def told(**given: Any) -> str:
    """What is told of a step that returns it."""
    env = begun(**given)
    with pytest.raises(EnvironmentCallError) as caught:
        env.step(ACTIONS)
    text = str(caught.value)
    assert "raised" not in text
    return text


WORDS = spaces.Dict(
    {
        "box": spaces.Box(-1, 1, (3,), np.float32),
        "inner": spaces.Tuple((spaces.Discrete(5, start=2), spaces.MultiBinary(3))),
        "pixels": spaces.Box(0, 255, (2,), np.uint8),
        "word": spaces.MultiDiscrete([3, 3]),
    }
)
FINE = {
    "box": np.zeros(3, np.float32),
    "inner": (2, np.array([0, 1, 0])),
    "pixels": np.array([3, 200], np.uint8),
    "word": np.array([2, 0]),
}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"pixels": np.array([-3, 300])}, "['pixels'] of an observation holds -3, but its space is of uint8"),
        ({"pixels": np.array([0, 300])}, "holds 300, but its space is of uint8, whole numbers from 0 to 255"),
        ({"word": np.array([3, 1])}, "['word'] of an observation is array([3, 1]), of type ndarray, shape ["),
        ({"word": np.array([0, -1])}, "but number 1 of its space goes from 0 to 2"),
        ({"word": np.array([0.0, 1.0])}, "dtype float64, but its space says [2] whole numbers"),
        ({"word": np.array([0, 1, 2])}, "but its space says [2] whole numbers"),
        ({"box": np.zeros(2)}, "['box'] of an observation has shape [2], but its space says [3]"),
        ({"box": np.array([0, 0, 1e39])}, "['box'] of an observation holds a number that is too large for"),
        ({"box": ["a", "b", "c"]}, "['box'] of an observation is ['a', 'b', 'c'], of type list; it must be "),
        ({"inner": (1, np.zeros(3))}, "['inner'][0] of an observation is 1, of type int, but its space has "
                                      "the whole numbers from 2 to 6"),
        ({"inner": (-1, np.zeros(3))}, "['inner'][0] of an observation is -1"),
        ({"inner": (2.5, np.zeros(3))}, "['inner'][0] of an observation is 2.5, of type float"),
        ({"inner": (np.array([2, 3]), np.zeros(3))}, "['inner'][0] of an observation is array([2, 3])"),
        ({"inner": (2, np.array([0, 2, 0]))}, "['inner'][1] of an observation holds 2, but its space is of "),
        ({"inner": (2,)}, "['inner'] of an observation is (2,), of type tuple, but its space is a Tuple of "),
    ],
)  # fmt: skip
def test_each_part_of_an_observation_is_checked_and_named(part: dict[str, Any], message: str) -> None:
    text = told(space=WORDS, fine=FINE, observation=FINE | part)
    assert text.startswith("environment 0: ")
    assert message in text


@pytest.mark.parametrize(
    ("space", "fine", "shown", "message"),
    [
        (spaces.Discrete(5), 0, -1, "an observation is -1, of type int, but its space has the whole numbers"),
        (spaces.Discrete(5), 0, 5, "whole numbers from 0 to 4"),
        (WORDS, FINE, {"box": np.zeros(3)}, "an observation has no 'inner', which its space has: it is {'bo"),
        (WORDS, FINE, None, "an observation has no 'box', which its space has: it is None, of type NoneType"),
        (
            spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, (3,))}),
            {"a": np.ones(2), "b": np.ones(3)},
            {"a": np.ones(3), "b": np.ones(2)},
            "['a'] of an observation has shape [3], but its space says [2]",
        ),
        (spaces.Dict({"n": spaces.Box(0, 9, (2,), np.int16)}), {"n": np.zeros(2)}, {"n": np.full(2, 0.5)},
         "['n'] of an observation holds 0.5, but its space is of int16, whole numbers from -32768 to 32767"),
    ],
)  # fmt: skip
def test_what_was_changed_without_a_word_is_told(space: Any, fine: Any, shown: Any, message: str) -> None:
    """A one-hot number from the other end, bits of another number, a part that stood in another's place."""
    assert message in told(space=space, fine=fine, observation=shown)


def test_nan_in_a_part_is_told_with_its_name() -> None:
    shown = FINE | {"box": np.array([0, np.nan, 0])}
    env = environment("given", 1, "faulty_environments:Given", space=WORDS, fine=FINE, observation=shown)
    policy = policies_of(weights(env.spec), env.spec)
    message = r"NaN or infinity in \['box'\] of observations at step 1 of environment 0"
    with pytest.raises(EnvironmentCallError, match=message):
        rollout(env, policy, seed=0, steps=5, state={})
    with pytest.raises(EnvironmentCallError, match=r"NaN or infinity in \['box'\] of last_observations"):
        rollout(env, policy, seed=0, steps=1, state={})


_FLOATS = spaces.Dict(
    {
        "half": spaces.Box(-9, 9, (2, 2), np.float16),
        "double": spaces.Box(-9, 9, (), np.float64),
        "whole": spaces.Box(-9, 9, (3,), np.int32),
        "bits": spaces.MultiBinary((2, 2)),
        "dials": spaces.MultiDiscrete([[3], [4]], start=[[1], [-1]]),
    }
)


@pytest.mark.parametrize(
    "space",
    [WORDS, _FLOATS, spaces.Discrete(4, start=-2), spaces.MultiDiscrete([2, 5]), spaces.MultiBinary(3),
     spaces.Tuple((spaces.Dict({"a": spaces.Box(0, 1)}), spaces.Tuple((spaces.Discrete(3),))))],
)  # fmt: skip
def test_flattened_observations_are_those_of_gymnasium(space: Any) -> None:
    space.seed(0)
    read = Observations(space)
    row = np.full(read.shape, 7, np.float32)
    for _ in range(50):
        sample = space.sample()
        read.read(sample, row)
        np.testing.assert_array_equal(row, gymnasium.spaces.flatten(space, sample).astype(np.float32))
    for first in range(len(row)):
        assert read.place(first).count("[") <= 2


@pytest.mark.parametrize("value", [2, np.int8(2), np.array(2), np.array([2]), np.uint64(2)])
def test_whole_numbers_of_any_kind_fit(value: Any) -> None:
    env = begun(space=spaces.Discrete(3), fine=value)
    assert env.observations[0].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward": None}, "the reward is None, of type NoneType; gymnasium expects a float"),
        ({"reward": np.array([1.0, 2.0])}, "the reward is array([1., 2.]), of type ndarray, shape [2] and "
                                           "dtype float64; gymnasium expects a float"),
        ({"reward": {"a": 1}}, "the reward is {'a': 1}, of type dict; gymnasium expects a float"),
        ({"reward": 1e39}, "the reward is 1e+39, of type float; gymnasium expects a finite number"),
        ({"reward": np.float32("nan")}, "the reward is np.float32(nan), of type float32; gymnasium expects"),
        ({"terminated": {}}, "terminated is {}, of type dict; gymnasium expects a bool"),
        ({"truncated": np.zeros(2, bool)}, "truncated is array([False, False]), of type ndarray, shape [2]"),
        ({"terminated": "False"}, "terminated is 'False', of type str; gymnasium expects a bool"),
        ({"result": (np.zeros(2), 1.0, False, {})}, "with 4 values; gymnasium's step returns five values: "
                                                    "observation, reward, terminated, truncated, info"),
        ({"result": None}, "step returned None, of type NoneType; gymnasium's step returns five values"),
        ({"observation": None}, "an observation is None, of type NoneType; it must be an array of numbers"),
        ({"observation": [[1, 2], [3]]}, "an observation is [[1, 2], [3]], of type list; it must be an arra"),
        ({"observation": np.array([1e300, 0.0])}, "an observation holds a number that is too large for floa"),
        ({"observation": np.zeros(3)}, "an observation has shape [3], but its space says [2]; all must have"),
    ],
)  # fmt: skip
def test_what_a_step_returns_is_told_with_its_type_and_what_is_expected(given: Any, message: str) -> None:
    assert message in told(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"result": np.zeros(2)}, "reset returned array([0., 0.]), of type ndarray, shape [2] and dtype "
                                  "float64; gymnasium's reset returns two values: observation, info"),
        ({"observation": "north"}, "an observation is 'north', of type str; it must be an array of numbers"),
    ],
)  # fmt: skip
def test_what_a_reset_returns_is_told_the_same_way(given: Any, message: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=re.escape(message)):
        begun(at_reset=True, **given)


class Unshown:
    """What it is cannot be told."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_a_value_that_cannot_be_shown_is_told_by_its_type() -> None:
    assert "the reward is a value that cannot be shown, of type Unshown; gymnasium" in told(reward=Unshown())
    assert len(told(reward="x" * 70_000)) < 300


@pytest.mark.parametrize(
    ("reward", "expected"),
    [(np.array([1.5]), 1.5), (np.array(2), 2.0), (np.array([[True]]), 1.0), ([0.5], 0.5),
     (np.float32(3), 3.0), (Fraction(1, 4), 0.25), (3.4028235e38, 3.4028235e38)],
)  # fmt: skip
def test_one_number_of_any_kind_is_a_reward(reward: Any, expected: float) -> None:
    rewards, *_ = begun(reward=reward).step(ACTIONS)
    assert rewards.tolist() == [expected]


@pytest.mark.parametrize("end", [True, np.True_, 1, np.array([True]), np.array(1.0)])
def test_one_truth_of_any_kind_ends_an_episode(end: Any) -> None:
    _, terminated, truncated = begun(terminated=end, truncated=None).step(ACTIONS)
    assert (terminated.tolist(), truncated.tolist()) == ([True], [False])


@pytest.mark.parametrize("how", ["constructor", "reset", "step"])
def test_the_error_state_of_numpy_does_not_matter(how: str) -> None:
    before = np.geterr()
    env = environment("strict", 2, "faulty_environments:Strict", how=how)
    assert np.geterr() == before
    env.reset([0, 1])
    policy = policies_of(weights(env.spec), env.spec)
    assert rollout(env, policy, seed=0, steps=40, state={})["observations"].shape == (20, 2, 2)
    assert np.geterr() == before


def test_the_error_state_of_numpy_does_not_matter_to_several_agents() -> None:
    before = np.geterr()
    made = several(count=1, entry_point="faulty_environments:StrictDuo")
    made.reset([0])
    game = Game(made)
    game.rollout(game.policy(container(made.spec)), seed=1, steps=9, state={}, optional_tensors=())
    assert np.geterr() == before


def _with(index: int, value: Any) -> Any:
    def change(values: list[Any]) -> Any:
        values[index] = value if not isinstance(values[index], dict) else {**values[index], "a_1": value}
        return tuple(values)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(1, None), "the reward of a_1 is None, of type NoneType; PettingZoo expects a float"),
        (_with(1, 1e39), "the reward of a_1 is 1e+39, of type float; PettingZoo expects a finite number"),
        (_with(2, np.zeros(2)), "the termination of a_1 is array([0., 0.]), of type ndarray, shape [2]"),
        (_with(0, np.zeros(3)), "an observation of a_1 has shape [3], but its space says [2]"),
        (_with(0, None), "an observation of a_1 is None, of type NoneType; it must be an array of numbers"),
        (lambda values: tuple(values[:4]), "with 4 values; PettingZoo's step returns five values: observat"),
        (lambda values: (*values[:1], [1.0, 1.0], *values[2:]), "the rewards are [1.0, 1.0], of type list; "),
    ],
)  # fmt: skip
def test_what_a_step_of_several_agents_returns_is_told(change: Any, message: str) -> None:
    made = several(count=1, entry_point="faulty_environments:Duo", change=change)
    made.reset([0])
    with pytest.raises(EnvironmentCallError, match=f"environment 0: .*{re.escape(message)}") as caught:
        made.step({one.name: np.zeros((1, 2), np.int64) for one in made.spec.classes})
    assert "raised" not in str(caught.value)


def test_an_array_of_one_number_is_a_reward_of_several_agents() -> None:
    made = several(count=1, entry_point="faulty_environments:Duo", change=_with(1, np.array([2.5])))
    made.reset([0])
    step = made.step({one.name: np.zeros((1, 2), np.int64) for one in made.spec.classes})
    assert [rewards.tolist() for rewards in step.rewards.values()] == [[[1.0, 2.5]]]


def test_a_reset_of_several_agents_is_checked_too() -> None:
    with pytest.raises(EnvironmentConfigError, match=r"reset returned \{\}, of type dict; PettingZoo"):
        several(count=1, entry_point="faulty_environments:Duo", reset={})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((np.zeros(2), 1.0, False, False, {}), "the observation is array([0., 0.]), of type ndarray, shape "),
        ((([0.0], [0.0], [0.0]), 1.0, False, False, {}), "the reward is 1.0, of type float; it must have on"),
        (((), (), False, {}), "with 4 values; gymnasium's step returns five values"),
    ],
)  # fmt: skip
def test_a_step_with_tuples_of_spaces_is_checked_too(values: Any, message: str) -> None:
    space = spaces.Tuple([spaces.Box(-1, 1, (1,))] * 3)
    given = {"space": space, "fine": ([0.0],) * 3, "result": values}
    made = several(count=1, entry_point="test_returned:Trio", **given)
    made.reset([0])
    with pytest.raises(EnvironmentCallError, match=re.escape(message)):
        made.step({one.name: np.zeros((1, 3), np.int64) for one in made.spec.classes})


class Trio(Given):
    """Three agents, in tuples."""

    action_space = spaces.Tuple([spaces.Discrete(2)] * 3)  # type: ignore[assignment]
