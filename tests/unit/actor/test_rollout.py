"""Fragments: their layout, their truth (recomputed step by step), determinism, and failures."""

import gymnasium
import numpy as np
import pytest

from actor_support import environment, evaluate, policies_of, rollout, weights
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.rollout import PolicyError

Tensors = dict[str, np.ndarray]


def _rollout(
    name: str = "Hopper-v5", count: int = 2, *, seed: int = 5, steps: int = 200, **kwargs: object
) -> Tensors:
    entry_point = kwargs.pop("entry_point", None)
    state = kwargs.pop("state", {})
    env = environment(name, count, entry_point, **kwargs)  # type: ignore[arg-type]
    return rollout(env, policies_of(weights(env.spec), env.spec), seed=seed, steps=steps, state=state)  # type: ignore[arg-type]


def _state(fragment: Tensors) -> Tensors:
    return {
        name.removeprefix("state/"): array for name, array in fragment.items() if name.startswith("state/")
    }


def _assert_same(one: Tensors, other: Tensors) -> None:
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }


@pytest.mark.parametrize("names", [(), ("log_probs",), ("distribution",), OPTIONAL_TENSORS])
@pytest.mark.parametrize("name", ["Hopper-v5", "CartPole-v1"])
def test_a_rollout_has_the_optional_tensors_that_are_wanted_and_all_others(
    name: str, names: tuple[str, ...]
) -> None:
    env = environment(name, 2)
    policy = policies_of(weights(env.spec), env.spec)
    whole = rollout(env, policy, seed=3, steps=100, state={})
    part = rollout(env, policy, seed=3, steps=100, state={}, optional_tensors=names)
    _assert_same(part, {n: a for n, a in whole.items() if n in names or n not in OPTIONAL_TENSORS})


def test_layout() -> None:
    fragment = _rollout(steps=200)
    layout = {name: (array.dtype.name, array.shape) for name, array in fragment.items()}
    episodes = len(fragment["episode_returns"])
    assert episodes > 2
    assert layout == {
        "observations": ("float32", (100, 2, 11)),
        "actions": ("float32", (100, 2, 3)),
        "log_probs": ("float32", (100, 2)),
        "distribution": ("float32", (100, 2, 6)),
        "rewards": ("float32", (100, 2)),
        "terminated": ("bool", (100, 2)),
        "truncated": ("bool", (100, 2)),
        "last_observations": ("float32", (2, 11)),
        "final_observations": ("float32", (0, 11)),
        "episode_returns": ("float64", (episodes,)),
        "episode_lengths": ("int64", (episodes,)),
        "state/physics": ("float64", (2, 58)),
        "state/observations": ("float32", (2, 11)),
        "state/position": ("float64", (2,)),
        "state/generators": ("uint64", (2, 6)),
        "state/returns": ("float64", (2,)),
        "state/lengths": ("int64", (2,)),
    }


def test_layout_of_discrete_actions_and_pixels() -> None:
    walk = _rollout("walk", entry_point="actor_support:Forgetful")
    assert (walk["actions"].dtype, walk["actions"].shape) == (np.int64, (100, 2))
    assert walk["distribution"].shape == (100, 2, 3)
    assert not _state(walk)
    pixels = _rollout("pixels", entry_point="actor_support:Pixels")
    assert (pixels["observations"].dtype, pixels["observations"].shape) == (np.uint8, (100, 2, 4, 4, 1))
    assert pixels["final_observations"].shape == (0, 4, 4, 1)


@pytest.mark.parametrize("time_limit", [30, 1000])
def test_replayed_by_hand(time_limit: int) -> None:
    """One copy, action by action in gymnasium: every tensor is what happened, ends of episodes included."""
    fragment = _rollout("Hopper-v5", 1, steps=400, xml_file="hopper.xml", max_episode_steps=time_limit)
    env = gymnasium.make("Hopper-v5", max_episode_steps=time_limit)
    seed = int(np.random.SeedSequence(5).spawn(2)[0].generate_state(1, np.uint64)[0])
    observation, _ = env.reset(seed=seed % 2**32)
    finals, returns, lengths, total, length = [], [], [], 0.0, 0
    for t in range(400):
        np.testing.assert_array_equal(fragment["observations"][t, 0], observation.astype(np.float32))
        observation, reward, terminated, truncated, _ = env.step(np.clip(fragment["actions"][t, 0], -1, 1))
        assert fragment["rewards"][t, 0] == np.float32(reward)
        assert (fragment["terminated"][t, 0], fragment["truncated"][t, 0]) == (terminated, truncated)
        total, length = total + float(reward), length + 1
        if terminated or truncated:
            if not terminated:
                finals.append(observation.astype(np.float32))
            returns.append(total)
            lengths.append(length)
            total, length = 0.0, 0
            observation, _ = env.reset()
    np.testing.assert_array_equal(fragment["last_observations"][0], observation.astype(np.float32))
    np.testing.assert_array_equal(fragment["final_observations"], np.array(finals).reshape(-1, 11))
    np.testing.assert_allclose(fragment["episode_returns"], returns, rtol=1e-12)
    assert fragment["episode_lengths"].tolist() == lengths
    assert bool(finals) == (time_limit == 30)
    # Actions are as they were sampled; only the environment sees them clipped.
    assert np.abs(fragment["actions"]).max() > 1


def test_truncated_and_terminated_at_once_is_terminated() -> None:
    fragment = _rollout("walk", entry_point="actor_support:Walk", drift=0.25, steps=2000, seed=1)
    both = fragment["terminated"] & fragment["truncated"]
    assert both.any()
    cut = fragment["truncated"] & ~fragment["terminated"]
    assert len(fragment["final_observations"]) == cut.sum()
    assert (fragment["final_observations"][:, 1] == 20).all()


def test_final_observations_are_ordered_by_step_then_environment() -> None:
    fragment = _rollout("CartPole-v1", 3, steps=90, max_episode_steps=5)
    t, _ = np.nonzero(fragment["truncated"] & ~fragment["terminated"])
    assert len(t) == len(fragment["final_observations"]) == 18
    assert sorted(t) == list(t)
    assert not np.array_equal(fragment["final_observations"][0], fragment["final_observations"][1])


def test_same_request_gives_the_same_bits() -> None:
    _assert_same(_rollout(seed=2**62), _rollout(seed=2**62))
    env = environment("Hopper-v5", 2)
    policy = policies_of(weights(env.spec), env.spec)
    arguments = {"seed": 9, "steps": 60, "state": {}}
    first = rollout(env, policy, **arguments)  # type: ignore[arg-type]
    evaluate(env, policy, seed=1, episodes=3, max_steps=50)
    _assert_same(first, rollout(env, policy, **arguments))  # type: ignore[arg-type]
    other = _rollout(seed=2**62 + 1)
    assert not np.array_equal(_rollout(seed=2**62)["actions"][0], other["actions"][0])


def test_copies_differ() -> None:
    fragment = _rollout()
    assert not np.array_equal(fragment["observations"][0, 0], fragment["observations"][0, 1])
    assert not np.array_equal(fragment["actions"][0, 0], fragment["actions"][0, 1])


@pytest.mark.parametrize(("name", "entry_point"), [("Hopper-v5", None), ("walk", "actor_support:Walk")])
def test_resumed_episodes_go_on(name: str, entry_point: str | None) -> None:
    """Returns and lengths span fragments, and the first observation is where the last fragment stopped."""
    first = _rollout(name, entry_point=entry_point, steps=30)
    second = _rollout(name, entry_point=entry_point, steps=300, seed=6, state=_state(first))
    np.testing.assert_array_equal(second["observations"][0], first["last_observations"])
    ended = np.argmax(second["terminated"] | second["truncated"], axis=0)
    index = int(np.argmin(ended))
    carried = _state(first)
    assert second["episode_lengths"][0] == carried["lengths"][index] + ended[index] + 1
    total = carried["returns"][index] + second["rewards"][: ended[index] + 1, index].sum()
    assert second["episode_returns"][0] == pytest.approx(total, rel=1e-5)


def test_an_input_state_is_left_alone() -> None:
    state = _state(_rollout(steps=30))
    before = {name: array.copy() for name, array in state.items()}
    _rollout(steps=30, state=state)
    _assert_same(state, before)


class TestEvaluate:
    def test_plays_whole_episodes_with_mean_actions(self) -> None:
        env = environment("Hopper-v5", 2)
        policy = policies_of(weights(env.spec), env.spec)
        result = evaluate(env, policy, seed=3, episodes=5, max_steps=1000)
        plain = gymnasium.make("Hopper-v5")
        seeds = np.random.SeedSequence(3).spawn(2)[0].generate_state(2, np.uint64)
        distribution = np.empty((2, 6), np.float32)
        returns, lengths = np.zeros(5), np.zeros(5, int)
        for copy in range(2):
            observation, _ = plain.reset(seed=int(seeds[copy]))
            for episode in range(copy, 5, 2):
                done = False
                while not done:
                    seen = np.tile(observation.astype(np.float32), (2, 1))
                    policy.classes[AGENT].distribution(seen, None, distribution)
                    observation, reward, *ends, _ = plain.step(np.clip(distribution[0, :3], -1, 1))
                    returns[episode] += reward
                    lengths[episode] += 1
                    done = any(ends)
                observation, _ = plain.reset()
        assert result["episode_lengths"].tolist() == lengths.tolist()
        np.testing.assert_allclose(result["episode_returns"], returns, rtol=1e-6)

    def test_an_evaluation_ends_at_the_step_limit(self) -> None:
        env = environment("Pendulum-v1", 3)
        result = evaluate(env, policies_of(weights(env.spec), env.spec), seed=3, episodes=2, max_steps=11)
        assert result["episode_lengths"].tolist() == [11, 11]

    @pytest.mark.parametrize("how", ["observation", "reward"])
    def test_nan_is_an_error(self, how: str) -> None:
        env = environment("broken", 2, "actor_support:Broken", how=how)
        with pytest.raises(EnvironmentCallError, match=how):
            evaluate(env, policies_of(weights(env.spec), env.spec), seed=3, episodes=8, max_steps=100)


class TestFailures:
    @pytest.mark.parametrize(
        ("how", "message"),
        [
            ("raise", "ZeroDivisionError: the wheel came off"),
            ("observation", "observations at step 7 of environment 0"),
            ("reward", "environment 0: the reward is inf, of type float; gymnasium expects a finite number"),
        ],
    )
    def test_of_the_environment(self, how: str, message: str) -> None:
        with pytest.raises(EnvironmentCallError, match=message):
            _rollout("broken", entry_point="actor_support:Broken", how=how, steps=40)

    def test_nan_in_the_last_observation_is_an_error(self) -> None:
        with pytest.raises(EnvironmentCallError, match="last_observations"):
            _rollout("broken", entry_point="actor_support:Broken", how="observation", steps=14)

    @pytest.mark.parametrize("wanted", [OPTIONAL_TENSORS, ()])
    def test_diverged_weights_are_an_error(self, wanted: tuple[str, ...]) -> None:
        env = environment("Hopper-v5", 2)
        diverged = weights(env.spec)
        diverged.tensors["policy.head.weight"][:] = 3e38
        with pytest.raises(PolicyError, match="step 0 of environment 0"), np.errstate(all="ignore"):
            rollout(env, policies_of(diverged, env.spec), seed=1, steps=20, state={}, optional_tensors=wanted)

    def test_a_failure_leaves_the_actor_usable(self) -> None:
        env = environment("broken", 1, "actor_support:Broken", how="raise")
        policy = policies_of(weights(env.spec), env.spec)
        with pytest.raises(EnvironmentCallError):
            rollout(env, policy, seed=1, steps=20, state={})
        assert rollout(env, policy, seed=1, steps=20, state={})["actions"].shape == (20, 1)
