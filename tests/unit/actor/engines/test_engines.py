"""The fast engine equals gymnasium to the bit, and every resumable environment goes on to the bit."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from actor_support import action_of
from actor_support import lone_environment as environment
from nitro_actor import wire
from nitro_actor.actions import Continuous, WholeNumbers
from nitro_actor.engines import tasks
from nitro_actor.engines.base import pack_generators, unpack_generators
from nitro_actor.environment import Environment

STEPS = 300

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tasks.TASKS),
    (
        "Hopper-v5",
        {
            "frame_skip": 3,
            "forward_reward_weight": 2,
            "ctrl_cost_weight": 0.01,
            "healthy_reward": 0.5,
            "healthy_state_range": [-3.0, 3.0],
            "healthy_z_range": [0.8, 1.4],
            "healthy_angle_range": [-0.1, 0.1],
            "reset_noise_scale": 0.02,
        },
    ),
    ("Hopper-v5", {"terminate_when_unhealthy": False, "exclude_current_positions_from_observation": False}),
    ("Swimmer-v5", {"exclude_current_positions_from_observation": False}),
    ("Ant-v5", {"include_cfrc_ext_in_observation": False, "main_body": "front_left_leg"}),
    (
        "Ant-v5",
        {"contact_force_range": [-0.5, 0.5], "contact_cost_weight": 0.1, "healthy_z_range": [0.4, 0.9]},
    ),
    (
        "Humanoid-v5",
        {
            "include_cinert_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
            "contact_cost_range": [0.0, 0.001],
        },
    ),
    (
        "Humanoid-v5",
        {f"include_{n}_in_observation": False for n in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")},
    ),
]


@pytest.mark.parametrize(("name", "kwargs"), VARIANTS, ids=[f"{n}-{len(k)}" for n, k in VARIANTS])
def test_equals_gymnasium(name: str, kwargs: dict[str, Any]) -> None:
    """Observations (as f32), rewards (f64) and terminations of random steps with resets, in two copies."""
    count = 2
    fast = environment(name, count, **kwargs)
    assert fast.raw() is None, "our own engine computes it"
    plain = [gymnasium.make(name, **kwargs) for _ in range(count)]
    fast.reset([10, 11])
    expected = np.array([env.reset(seed=10 + i)[0] for i, env in enumerate(plain)])
    assert isinstance(action_of(fast.spec), Continuous)
    low, high = action_of(fast.spec).low, action_of(fast.spec).high
    np.testing.assert_array_equal((low, high), (plain[0].action_space.low, plain[0].action_space.high))
    rng = np.random.default_rng(0)
    resets = 0
    for t in range(STEPS):
        np.testing.assert_array_equal(fast.observations, expected.astype(np.float32))
        actions = rng.uniform(low, high, (count, len(low))).astype(np.float32)
        rewards, terminated, truncated = fast.step(actions)
        for i, env in enumerate(plain):
            expected[i], reward, ended, cut, _ = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, ended, cut), f"step {t} of copy {i}"
        np.testing.assert_array_equal(fast.observations, expected.astype(np.float32))
        for i, env in enumerate(plain):
            if terminated[i] or (t + 50 * i) % 100 == 99:
                fast.reset_one(i)
                expected[i] = env.reset()[0]
                resets += 1
    assert resets >= 5


@pytest.mark.parametrize("name", tasks.TASKS)
def test_the_time_limit_is_that_of_the_registry(name: str) -> None:
    assert gymnasium.spec(name).max_episode_steps == tasks.MAX_EPISODE_STEPS
    assert tasks.supports(name, {})


def test_unknown_arguments_fall_back_to_gymnasium() -> None:
    for fallen_back in (environment("Hopper-v5", 1, xml_file="hopper.xml"), environment("Hopper-v4", 1)):
        assert isinstance(fallen_back.raw(), gymnasium.Env)


def _play(env: Environment, rng: np.random.Generator, steps: int) -> list[tuple[Any, ...]]:
    """Random steps with resets at the end of episodes; everything that a fragment would show."""
    seen = []
    for _ in range(steps):
        space = action_of(env.spec)
        if isinstance(space, WholeNumbers):
            actions = rng.integers(0, space.counts, (env.count, *space.shape))
        else:
            actions = rng.uniform(-1, 1, (env.count, action_of(env.spec).outputs)).astype(np.float32)
        rewards, terminated, truncated = env.step(actions)
        seen.append((env.observations.tobytes(), rewards.tobytes(), terminated.tolist(), truncated.tolist()))
        for i in np.flatnonzero(terminated | truncated):
            seen.append((i, env.returns[i], env.lengths[i]))
            env.reset_one(int(i))
    return seen


CLASSIC = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0")

RESUMABLE: list[tuple[str, str | None, dict[str, Any]]] = [
    *((name, None, {}) for name in tasks.TASKS),
    ("Humanoid-v4", None, {}),
    ("Hopper-v5", None, {"xml_file": "hopper.xml"}),
    ("Reacher-v5", None, {}),
    ("Pusher-v5", None, {}),
    ("HumanoidStandup-v5", None, {"max_episode_steps": 30}),
    *((name, None, {}) for name in CLASSIC),
    ("walk", "actor_support:Walk", {"drift": 0.1}),
    ("limited", "actor_support:limited_walk", {}),
    ("dials", "learner_environments:Dials", {}),
    ("switches", "learner_environments:Switches", {}),
]


@pytest.mark.parametrize(("name", "entry_point", "kwargs"), RESUMABLE, ids=[n for n, *_ in RESUMABLE])
@pytest.mark.parametrize("before", [0, 1, 37])
def test_resumes_to_the_bit(name: str, entry_point: str | None, kwargs: dict[str, Any], before: int) -> None:
    """Steps after a restore in another process's environment equal the uninterrupted ones."""
    first, second = (environment(name, 2, entry_point, **kwargs) for _ in range(2))
    assert first.spec.resumable
    first.reset([1, 2])
    second.reset([3, 4])
    _play(first, np.random.default_rng(0), before)
    _play(second, np.random.default_rng(1), 5)
    _, state = wire.decode(wire.encode({}, first.snapshot()))
    expected = _play(first, np.random.default_rng(2), 60)
    second.restore(state)
    assert _play(second, np.random.default_rng(2), 60) == expected
    # A snapshot changes nothing, and one taken after a restore equals one taken without it.
    for name_, array in first.snapshot().items():
        np.testing.assert_array_equal(second.snapshot()[name_], array)


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_control_resumes_to_the_bit_at_every_step(name: str) -> None:
    """Each step is played by a new environment that gets the state of the last one, across episodes' ends."""
    steps, limit = 150, 60
    undisturbed = environment(name, 2, max_episode_steps=limit)
    undisturbed.reset([1, 2])
    expected = _play(undisturbed, np.random.default_rng(0), steps)
    ends = [seen for seen in expected if len(seen) == 3]
    assert len(ends) >= 4
    current = environment(name, 2, max_episode_steps=limit)
    current.reset([1, 2])
    rng, played = np.random.default_rng(0), []
    for number in range(steps):
        _, state = wire.decode(wire.encode({}, current.snapshot()))
        current.close()
        current = environment(name, 2, max_episode_steps=limit)
        current.reset([number, number])
        current.restore(state)
        played += _play(current, rng, 1)
    assert played == expected
    for name_, array in undisturbed.snapshot().items():
        np.testing.assert_array_equal(current.snapshot()[name_], array)


def test_classic_control_refuses_other_states() -> None:
    env = environment("Pendulum-v1", 2)
    env.reset([0, 1])
    good = env.snapshot()
    with pytest.raises(wire.WireError, match="last_u: missing"):
        env.restore({name: array for name, array in good.items() if name != "own/last_u"})
    with pytest.raises(wire.WireError, match="state: holds NaN"):
        env.restore(good | {"own/state": np.full_like(good["own/state"], np.nan)})


def test_restore_refuses_other_states() -> None:
    env = environment("Hopper-v5", 2)
    env.reset([0, 1])
    good = env.snapshot()
    for name in good:
        with pytest.raises(wire.WireError, match=f"{name}: missing"):
            env.restore({n: array for n, array in good.items() if n != name})
        with pytest.raises(wire.WireError, match=f"{name}: shape"):
            env.restore(good | {name: good[name][:1]})
    with pytest.raises(wire.WireError, match="physics: holds NaN"):
        env.restore(good | {"physics": np.full_like(good["physics"], np.nan)})
    with pytest.raises(wire.WireError, match="extra: not expected"):
        env.restore(good | {"extra": np.zeros(2)})


@pytest.mark.parametrize(
    ("name", "entry_point"),
    [("forgetful", "actor_support:Forgetful"), ("heavy", "actor_support:HeavyCartPole")],
)
def test_an_environment_without_states_is_not_resumable(name: str, entry_point: str | None) -> None:
    env = environment(name, 1, entry_point)
    env.reset([0])
    assert not env.spec.resumable
    assert env.snapshot() == {}
    with pytest.raises(wire.WireError, match="cannot be resumed"):
        env.restore(environment("Hopper-v5", 1).snapshot())


def test_generators_survive_packing() -> None:
    generators = [np.random.default_rng(i) for i in range(3)]
    for generator in generators:
        generator.integers(0, 9, 3, np.int32)  # leaves half a word buffered
    copies = unpack_generators(pack_generators(generators))
    for generator, copy in zip(generators, copies, strict=True):
        assert (
            generator.integers(0, 2**31, 5, np.int32).tolist()
            == copy.integers(0, 2**31, 5, np.int32).tolist()
        )
