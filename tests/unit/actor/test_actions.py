"""Action spaces against plain recomputation in f64 and against gymnasium's own spaces."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation

from actor_support import action_of, policies_of, rollout, weights
from actor_support import lone_environment as environment
from learner_environments import Dials
from nitro_actor.actions import ActionSpace, Continuous, Discrete, MultiBinary, MultiDiscrete, action_space
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.spaces import actions, is_flattened, native_action

ROWS = 20_000
PARTS = MultiDiscrete((3, 1, 4), (3,), (0, 0, 0), "int64")
BITS = MultiBinary((3,))


def drawn(space: ActionSpace, parameters: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Equal distributions, and an action drawn from each."""
    distribution = np.tile(np.array(parameters, np.float32), (ROWS, 1))
    chosen = np.empty((ROWS, *space.shape), space.dtype)
    space.sample(distribution, space.noise(np.random.default_rng(0), (ROWS,)), chosen)
    return distribution, chosen


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64) - logits.max())
    return powers / powers.sum()


def test_each_part_is_drawn_and_rated_by_its_own_logits() -> None:
    # The exponentials of the last logits are too large for float32.
    distribution, chosen = drawn(PARTS, [1.0, -1.0, 0.5, 7.0, 500.0, 501.0, 499.5, 400.0])
    parts = [softmax(distribution[0, part]) for part in (slice(0, 3), slice(3, 4), slice(4, 8))]
    for index, chances in enumerate(parts):
        found = np.bincount(chosen[:, index], minlength=len(chances)) / ROWS
        np.testing.assert_allclose(found, chances, atol=0.012)
    both = np.mean((chosen[:, 0] == 0) & (chosen[:, 2] == 1))
    assert both == pytest.approx(parts[0][0] * parts[2][1], abs=0.012), "the parts are independent"
    expected = sum(np.log(chances)[chosen[:, index]] for index, chances in enumerate(parts))
    np.testing.assert_allclose(PARTS.log_probabilities(distribution, chosen), expected, atol=1e-4)
    assert PARTS.mode(distribution)[0].tolist() == [0, 0, 1]


def test_each_bit_is_drawn_and_rated_by_its_own_logit() -> None:
    distribution, chosen = drawn(BITS, [2.0, -0.5, 90.0])
    ones = 1 / (1 + np.exp(-np.array([2.0, -0.5, 90.0])))
    np.testing.assert_allclose(chosen.mean(0), ones, atol=0.012)
    both = (chosen[:, :2] == 1).all(1).mean()
    assert both == pytest.approx(ones[0] * ones[1], abs=0.012), "the bits are independent"
    expected = np.log(np.where(chosen[:, :2] == 1, ones[:2], 1 - ones[:2])).sum(1)
    np.testing.assert_allclose(BITS.log_probabilities(distribution, chosen), expected, atol=1e-5)
    never = np.array([[1, 1, 0]])
    assert BITS.log_probabilities(distribution[:1], never)[0] < -90
    assert BITS.mode(np.array([[2.0, -0.5, 0.0]], np.float32))[0].tolist() == [1, 0, 0]


def test_leading_axes_are_free() -> None:
    rng = np.random.default_rng(0)
    for space in (PARTS, BITS):
        distribution = rng.normal(size=(5, 2, 3, space.parameters)).astype(np.float32)
        chosen = np.empty((5, 2, 3, *space.shape), space.dtype)
        space.sample(distribution, space.noise(rng, (5, 2, 3)), chosen)
        rows = (array.reshape(30, -1) for array in (distribution, chosen))
        told = space.log_probabilities(distribution, chosen)
        np.testing.assert_allclose(told.reshape(-1), space.log_probabilities(*rows), rtol=1e-6)


@pytest.mark.parametrize(
    "space",
    [
        Continuous(np.array([-1, -np.inf], np.float32), np.array([0.1, np.inf], np.float32)),
        Discrete(5),
        Discrete(5, -2),
        MultiDiscrete((3, 2), (2, 1), (-1, 4), "int16"),
        MultiBinary((2, 3)),
    ],
    ids=lambda space: space.head,
)
def test_a_space_is_the_same_after_json(space: ActionSpace) -> None:
    again = action_space(space.to_json())
    assert type(again) is type(space)
    assert again.to_json() == space.to_json()
    assert (again.outputs, again.parameters, again.shape) == (space.outputs, space.parameters, space.shape)


def test_the_description_of_old_spaces_is_what_it_was() -> None:
    """Checkpoints and running actors of the release before have it."""
    assert Discrete(5).to_json() == {"kind": "discrete", "n": 5}
    bounds = np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32)
    expected = {"kind": "continuous", "size": 2, "low": [-1.0, None], "high": [1.0, None]}
    assert Continuous(*bounds).to_json() == expected
    assert list(Continuous(*bounds).to_json()) == list(expected)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4, start=-2),
        spaces.MultiDiscrete([3, 4, 2]),
        spaces.MultiDiscrete([[3, 200], [4, 2]], np.uint8, start=[[1, 7], [0, 250]]),
        spaces.MultiDiscrete([2, 3], np.int16, start=[-5, 0]),
        spaces.MultiBinary(4),
        spaces.MultiBinary((2, 3)),
    ],
    ids=str,
)
def test_users_and_environments_get_actions_of_the_environments_own_space(
    space: gymnasium.Space[Any],
) -> None:
    read = actions(space, "")
    rng = np.random.default_rng(0)
    distribution = rng.normal(size=(50, read.parameters)).astype(np.float32)
    chosen = np.empty((50, *read.shape), read.dtype)
    read.sample(distribution, read.noise(rng, (50,)), chosen)
    assert (chosen.min(), len(np.unique(chosen)) > 1) == (0, True)
    native = read.native(chosen)
    assert (native.dtype, native.shape) == (space.dtype, (50, *space.shape))  # type: ignore[misc]
    for one, row in zip(native, chosen, strict=True):
        assert space.contains(one)
        np.testing.assert_array_equal(native_action(space, row), one)
        assert np.asarray(native_action(space, row)).dtype == space.dtype


@pytest.mark.parametrize(
    ("name", "entry_point", "size"),
    [
        ("Blackjack-v1", None, 32 + 11 + 2),
        ("FrozenLake-v1", None, 16),
        ("dials", "learner_environments:Dials", 2 + 3 + 4 + 2),
        ("switches", "learner_environments:Switches", 4),
    ],
)
def test_observations_are_those_of_gymnasiums_wrapper(name: str, entry_point: str | None, size: int) -> None:
    env = environment(name, 1, entry_point)
    plain = FlattenObservation(gymnasium.make(name) if entry_point is None else _made(entry_point))
    assert env.spec.to_json()["observation"]["shape"] == [size]
    assert env.spec.classes[0].observation["dtype"] == "float32"
    env.reset([3])
    expected = plain.reset(seed=3)[0]
    rng, space = np.random.default_rng(0), action_of(env.spec)
    for _ in range(60):
        np.testing.assert_array_equal(env.observations[0], expected)
        chosen = rng.integers(0, space.counts, (1, *space.shape))  # type: ignore[attr-defined]
        _, terminated, truncated = env.step(chosen)
        expected, _, ended, cut, _ = plain.step(native_action(plain.action_space, chosen[0]))
        assert (terminated[0], truncated[0]) == (ended, cut)
        if ended or cut:
            env.reset_one(0)
            expected = plain.reset()[0]


def _made(entry_point: str) -> Any:
    import learner_environments

    return getattr(learner_environments, entry_point.split(":")[1])()


def test_a_flattened_observation_outside_its_space_is_an_error_of_the_environment() -> None:
    env = environment("dials", 1, "actor_support:WrongDials")
    told = (
        r"environment 0: \['dials'\]\[0\] of an observation is array\(\[.*, but number \d of its space goes"
    )
    with pytest.raises(EnvironmentCallError, match=told):
        env.step(np.zeros((1, 3), np.int64))


def test_no_more_is_flattened_than_a_network_can_see() -> None:
    assert is_flattened(spaces.Tuple((spaces.Discrete(100_000),)))
    with pytest.raises(EnvironmentConfigError, match="100001 numbers, of 100000 at most"):
        is_flattened(spaces.Tuple((spaces.Discrete(100_000), spaces.Box(0, 1, (1,)))))
    with pytest.raises(EnvironmentConfigError, match="flattened to 0 numbers"):
        is_flattened(spaces.Dict({}))
    assert not is_flattened(spaces.Box(0, 255, (8, 8), np.uint8)), "an image stays one"


def test_a_fragment_has_the_actions_that_the_environment_took() -> None:
    """And their rewards: the environment pays by its own form of an action."""
    env = environment("dials", 2, "learner_environments:Dials")
    policy = policies_of(weights(env.spec), env.spec)
    tensors = rollout(env, policy, seed=0, steps=80, state={})
    assert tensors["actions"].shape == (40, 2, 3)
    assert tensors["actions"].dtype == np.int64
    shown = tensors["observations"][..., 2:]  # after the clock: one-hot dials
    best = np.stack([shown[..., part].argmax(-1) for part in (slice(0, 3), slice(3, 7), slice(7, 9))], -1)
    np.testing.assert_allclose(tensors["rewards"], (tensors["actions"] == best).mean(-1), rtol=1e-6)
    assert Dials.action_space.shape == (3, 1)
