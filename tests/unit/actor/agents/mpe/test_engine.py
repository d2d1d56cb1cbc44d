"""The engine's trajectories are those of mpe2, to the bit, with the same seeds and the same actions."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mpe_players import play_assigned
from nitro_actor import wire
from nitro_actor.agents.mpe.engine import MpeEngine

COPIES = 4
SPREAD, ADVERSARY, TAG = (f"mpe2/simple_{name}_v3" for name in ("spread", "adversary", "tag"))
LONG, SHORT = 10_000, 1_000

VARIANTS: list[tuple[str, dict[str, Any], int]] = [
    (SPREAD, {}, LONG),
    (SPREAD, {"N": 6, "local_ratio": 0.3, "max_cycles": 40}, 2_000),
    (SPREAD, {"N": 9}, SHORT),
    (SPREAD, {"N": 1, "local_ratio": 1}, SHORT),
    (SPREAD, {"N": 2, "local_ratio": 0, "terminate_on_success": True}, 4_000),
    (ADVERSARY, {}, LONG),
    (ADVERSARY, {"N": 4, "max_cycles": 10, "dynamic_rescaling": False}, 2_000),
    (ADVERSARY, {"N": 1}, SHORT),
    (TAG, {}, LONG),
    (TAG, {"num_good": 3, "num_adversaries": 4, "num_obstacles": 3, "max_cycles": 60}, 2_000),
    (TAG, {"num_good": 2, "num_adversaries": 1, "num_obstacles": 0, "benchmark_data": True}, SHORT),
    (TAG, {"terminate_on_success": True, "max_cycles": 50}, 4_000),
]
NAMES = [f"{name.split('_')[1]}-{'-'.join(map(str, kwargs.values()))}" for name, kwargs, _ in VARIANTS]


@pytest.mark.parametrize(
    ("name", "kwargs", "steps"),
    [pytest.param(*variant, marks=[pytest.mark.slow] * (variant[2] > SHORT)) for variant in VARIANTS],
    ids=NAMES,
)
def test_equals_mpe2_over_random_steps(name: str, kwargs: dict[str, Any], steps: int) -> None:
    """Observations (f32), rewards (f64), terminations and time limits, through the episodes that follow."""
    ours, theirs = MpeEngine(name, COPIES, kwargs), [_mpe2(name, kwargs) for _ in range(COPIES)]
    ours.reset(range(COPIES))
    expected = [env.reset(seed=seed)[0] for seed, env in enumerate(theirs)]
    lengths, ends, cuts = np.zeros(COPIES, int), 0, 0
    players = _Wanderers(ours, 7)
    for t in range(steps // COPIES):
        _check_observations(ours, expected)
        actions = players.actions()
        step = ours.step(actions)
        lengths += 1
        for i, env in enumerate(theirs):
            expected[i], rewards, terminated, truncated, _ = env.step(_of_copy(ours, actions, i))
            assert _of_classes(ours, step.rewards, i) == rewards, f"step {t} of copy {i}"
            at_limit = bool(lengths[i] >= ours.time_limit)
            assert set(truncated.values()) == {at_limit}
            if not at_limit:
                assert _of_classes(ours, step.died, i) == terminated
                assert set(terminated.values()) == {bool(step.terminated[i])}
            if at_limit or step.terminated[i]:
                ends, cuts = ends + step.terminated[i], cuts + at_limit
                ours.reset_one(i)
                expected[i] = env.reset()[0]
                lengths[i] = 0
        assert not step.truncated.any()
    assert cuts > 10
    assert (ends > 10) == kwargs.get("terminate_on_success", False)


@pytest.mark.parametrize("name", [SPREAD, ADVERSARY, TAG])
def test_positions_and_velocities_equal_mpe2_to_the_bit(name: str) -> None:
    """Rounding of observations to f32 hides nothing."""
    ours, env = MpeEngine(name, 1, {}), _mpe2(name, {"max_cycles": 10**9})
    ours.reset([3])
    env.reset(seed=3)
    players = _Wanderers(ours, 3)
    for _ in range(500):
        actions = players.actions()
        ours.step(actions)
        env.step(_of_copy(ours, actions, 0))
    kept, world = ours.snapshot(), env.unwrapped.world
    np.testing.assert_array_equal(
        kept["positions"][0, : len(world.entities)], [entity.state.p_pos for entity in world.entities]
    )
    np.testing.assert_array_equal(kept["velocities"][0], [agent.state.p_vel for agent in world.agents])


def test_success_at_the_time_limit_terminates_here_and_truncates_in_mpe2() -> None:
    """The one difference; here an agent is pushed to the left, onto its landmark."""
    seed, limit = _left_of_its_agent()
    for cycles, cut in ((limit + 1, False), (limit, True)):
        kwargs = {"N": 1, "terminate_on_success": True, "max_cycles": cycles}
        ours, env = MpeEngine(SPREAD, 1, kwargs), _mpe2(SPREAD, kwargs)
        ours.reset([seed])
        env.reset(seed=seed)
        for t in range(limit):
            step = ours.step({"agent": np.array([[1]])})
            _, _, terminated, truncated, _ = env.step({"agent_0": 1})
            assert step.terminated[0] == (t == limit - 1)
        assert (terminated["agent_0"], truncated["agent_0"]) == (not cut, cut)


def test_an_episode_that_ended_shows_no_agent_until_its_reset() -> None:
    seed, steps = _left_of_its_agent()
    engine = MpeEngine(SPREAD, 2, {"N": 1, "terminate_on_success": True})
    engine.reset([seed, seed + 1])
    for _ in range(steps):
        step = engine.step({"agent": np.array([[1], [0]])})
    assert step.terminated.tolist() == [True, False]
    assert step.died["agent"].tolist() == engine.alive["agent"][::-1].tolist() == [[True], [False]]
    assert not engine.observations["agent"][0].any()
    other = engine.observations["agent"][1].copy()
    assert other.any()
    engine.reset_one(0)
    assert engine.alive["agent"].all()
    assert engine.observations["agent"][0].any()
    np.testing.assert_array_equal(engine.observations["agent"][1], other)
    assert not engine.step({"agent": np.array([[0], [0]])}).died["agent"].any()


@pytest.mark.parametrize(("name", "kwargs"), [(SPREAD, {"N": 4}), (ADVERSARY, {}), (TAG, {"num_good": 2})])
def test_goes_on_from_a_snapshot_to_the_bit(name: str, kwargs: dict[str, Any]) -> None:
    """Through the wire, in another engine that played something else, past the next resets."""
    first, second = MpeEngine(name, 3, kwargs), MpeEngine(name, 3, kwargs)
    first.reset([1, 2, 3])
    second.reset([7, 8, 9])
    players = _Wanderers(first, 5)
    for t in range(12):
        first.step(players.actions())
        if t < 5:
            second.step(players.actions())
    first.reset_one(1)
    second.restore(wire.decode(wire.encode({}, first.snapshot()))[1])
    for t in range(40):
        for class_name, observations in first.observations.items():
            np.testing.assert_array_equal(observations, second.observations[class_name])
        actions = players.actions()
        steps = first.step(actions), second.step(actions)
        for class_name, rewards in steps[0].rewards.items():
            np.testing.assert_array_equal(rewards, steps[1].rewards[class_name])
        if t % 10 == 9:
            first.reset_one(t % 3)
            second.reset_one(t % 3)
    for tensor, array in first.snapshot().items():
        np.testing.assert_array_equal(array, second.snapshot()[tensor])


def test_refuses_a_snapshot_of_another_environment() -> None:
    kept = MpeEngine(SPREAD, 2, {"N": 3}).snapshot()
    with pytest.raises(wire.WireError, match=r"positions: shape \[2, 6, 2\] instead of \[2, 8, 2\]"):
        MpeEngine(SPREAD, 2, {"N": 4}).restore(kept)
    kept["velocities"][0, 0, 0] = np.nan
    with pytest.raises(wire.WireError, match="velocities: holds NaN"):
        MpeEngine(SPREAD, 2, {"N": 3}).restore(kept)


@pytest.mark.parametrize(("name", "kwargs", "steps"), VARIANTS, ids=NAMES)
def test_classes_hold_the_agents_and_spaces_of_mpe2(name: str, kwargs: dict[str, Any], steps: int) -> None:
    del steps
    engine, env = MpeEngine(name, 2, kwargs), _mpe2(name, kwargs)
    assert [agent for one in engine.classes for agent in one.agents] == env.possible_agents
    assert [one.name for one in engine.classes] == sorted(engine.observations)
    for one in engine.classes:
        for agent in one.agents:
            assert env.observation_space(agent).shape == tuple(one.observation["shape"])
            assert env.action_space(agent).n == one.action["n"]
        assert engine.observations[one.name].shape == (2, len(one.agents), *one.observation["frame"])
        assert engine.alive[one.name].shape == (2, len(one.agents))


def test_a_picture_shows_every_body_at_its_place() -> None:
    """The goal's mark, the two good agents and the adversary; also when one of them is far outside."""
    engine = MpeEngine(ADVERSARY, 2, {})
    kept = engine.snapshot()
    # adversary, two good agents, two landmarks, the goal's mark on the second one
    kept["positions"][1] = [[0.6, 0.6], [-0.6, 0.6], [0.6, -0.6], [0, 0], [-0.6, -0.6], [-0.6, -0.6]]
    engine.restore(kept)
    image = engine.picture(1)
    assert (image.shape, image.dtype) == ((400, 400, 3), np.uint8)
    seen = {(y, x): image[y, x].tolist() for y in (100, 300) for x in (100, 300)}
    blue, red, green = [90, 90, 217], [217, 90, 90], [38, 166, 38]
    assert seen == {(100, 300): red, (100, 100): blue, (300, 300): blue, (300, 100): green}
    assert image[200, 200].tolist() == [38, 38, 38]
    assert image[5, 5].tolist() == [255, 255, 255]
    kept["positions"][1, 0] = [9, 0]
    engine.restore(kept)
    assert red in engine.picture(1)[200].tolist()


def _mpe2(name: str, kwargs: Mapping[str, Any]) -> Any:
    return importlib.import_module(name.replace("/", ".")).parallel_env(**kwargs)


class _Wanderers:
    """Agents that act at random, but mostly as before, so that they reach top speed and leave the field.

    In simple_spread those of every second copy go to landmarks instead, most of the time.
    """

    def __init__(self, engine: MpeEngine, seed: int) -> None:
        self._engine = engine
        self._rng = np.random.default_rng(seed)
        self._last = {one.name: np.zeros((engine.count, len(one.agents)), np.int64) for one in engine.classes}

    def actions(self) -> dict[str, np.ndarray]:
        for name, last in self._last.items():
            change = self._rng.random(last.shape) < 0.3
            self._last[name] = np.where(change, self._rng.integers(0, 5, last.shape), last)
        observations = self._engine.observations
        if list(observations) != ["agent"] or observations["agent"].shape[1] > 6:
            return self._last
        goals = play_assigned(observations["agent"], self._rng)
        seeks = self._rng.random(goals.shape) < 0.8
        seeks[::2] = False
        return {"agent": np.where(seeks, goals, self._last["agent"])}


def _left_of_its_agent() -> tuple[int, int]:
    """A seed of simple_spread (N = 1) whose agent covers its landmark going left, and in how many steps."""
    engine = MpeEngine(SPREAD, 1, {"N": 1, "terminate_on_success": True})
    for seed in range(10_000):
        engine.reset([seed])
        ends = [bool(engine.step({"agent": np.array([[1]])}).terminated[0]) for _ in range(15)]
        if any(ends[5:]) and not any(ends[:5]):
            return seed, 1 + ends.index(True)
    raise AssertionError("no such seed")


def _of_copy(engine: MpeEngine, actions: Mapping[str, np.ndarray], index: int) -> dict[str, int]:
    return {agent: int(action) for agent, action in _of_classes(engine, actions, index).items()}


def _of_classes(engine: MpeEngine, values: Mapping[str, np.ndarray], index: int) -> dict[str, Any]:
    """The values of one copy, by agent."""
    return {agent: values[one.name][index, i] for one in engine.classes for i, agent in enumerate(one.agents)}


def _check_observations(engine: MpeEngine, expected: list[dict[str, np.ndarray]]) -> None:
    for one in engine.classes:
        for i, observations in enumerate(expected):
            want = np.stack([observations[agent] for agent in one.agents])
            np.testing.assert_array_equal(engine.observations[one.name][i], want)
            assert want.dtype == engine.observations[one.name].dtype
