"""Policies with a memory: what they remember within an episode, across fragments, and nothing beyond."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor_support import evaluate, policies_of, rollout, weights
from actor_support import lone_environment as environment
from memory_support import SIZE, step, with_memory
from nitro_actor import wire
from nitro_actor.environment import Environment
from nitro_actor.protocol.state import bare

Tensors = dict[str, np.ndarray]


def sample(env: Environment, steps: int, *, version: int = 1, seed: int = 5, **arguments: Any) -> Tensors:
    policy = policies_of(with_memory(weights(env.spec, version=version)), env.spec)
    return rollout(env, policy, seed=seed, steps=steps, **{"state": {}, **arguments})


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize(("name", "entry_point"), [("Hopper-v5", None), ("walk", "actor_support:Walk")])
def test_a_rollout_remembers_within_episodes(name: str, entry_point: str | None, stack: int) -> None:
    env = environment(name, 2, entry_point, frame_stack=stack)
    given = with_memory(weights(env.spec))
    found = sample(env, 120)
    assert not found["memory"].any()
    ended = found["terminated"] | found["truncated"]
    assert ended.any(axis=0).all()
    frames = np.concatenate([np.repeat(found["observations"][:1], stack - 1, 0), found["observations"]])
    first = np.zeros(2, int)
    memory = np.zeros((2, SIZE))
    for t in range(60):
        for e in range(2):
            seen = [frames[max(t - back, first[e]) + stack - 1, e] for back in reversed(range(stack))]
            output, memory[e] = step(given, np.concatenate(seen), memory[e])
            np.testing.assert_allclose(found["distribution"][t, e, : len(output)], output, atol=2e-5)
            if ended[t, e]:
                memory[e], first[e] = 0, t + 1
    np.testing.assert_allclose(found["state/memory"], memory, atol=2e-5)


def test_an_episode_that_goes_on_remembers_to_the_bit() -> None:
    env = environment("Pendulum-v1", 2)
    whole = sample(env, 80)
    first = sample(env, 40)
    # The noise of two fragments is another than that of one, so the actions of the first part are compared.
    assert first["state/memory"].any()
    second = sample(env, 40, seed=6, state=bare(first))
    again = sample(env, 40, seed=6, state=bare(first))
    np.testing.assert_array_equal(second["memory"], first["state/memory"])
    np.testing.assert_array_equal(whole["memory"], np.zeros((2, SIZE), np.float32))
    assert {name: array.tobytes() for name, array in second.items()} == {
        name: array.tobytes() for name, array in again.items()
    }


def test_another_policy_goes_on_with_the_memory() -> None:
    env = environment("Pendulum-v1", 1)
    first = sample(env, 20)
    second = sample(env, 20, version=2, state=bare(first))
    given = with_memory(weights(env.spec, version=2))
    output, _ = step(given, second["observations"][0, 0], first["state/memory"][0].astype(float))
    np.testing.assert_allclose(second["distribution"][0, 0, :1], output, atol=2e-5)
    forgotten, _ = step(given, second["observations"][0, 0], np.zeros(SIZE))
    assert abs(forgotten - output) > 1e-3


def test_a_policy_without_memory_sends_none() -> None:
    env = environment("Pendulum-v1", 1)
    found = rollout(env, policies_of(weights(env.spec), env.spec), seed=1, steps=10, state={})
    assert not {"memory", "state/memory"} & set(found)


def test_an_environment_that_cannot_be_resumed_keeps_no_memory() -> None:
    found = sample(environment("walk", 2, "actor_support:Forgetful"), 20)
    assert "memory" in found
    assert not [name for name in found if name.startswith("state/")]


def test_an_evaluation_begins_each_episode_with_an_empty_memory() -> None:
    env = environment("walk", 2, "actor_support:Walk")
    given = with_memory(weights(env.spec))
    # Remembered numbers count many times, so that one that is not forgotten changes an episode.
    given.tensors["policy.head.weight"] *= 20  # type: ignore[index]
    played = evaluate(env, policies_of(given, env.spec), seed=3, episodes=6, max_steps=11)
    assert played["episode_lengths"].max() == 11  # cut episodes forget too
    seeds = np.random.SeedSequence(3).spawn(2)[0].generate_state(2, np.uint64)
    env.reset([int(seed) for seed in seeds])
    memory, found = np.zeros((2, SIZE)), []
    for _ in range(200):
        actions = np.zeros(2, np.int64)
        for e in range(2):
            output, memory[e] = step(given, env.frames[e], memory[e])
            actions[e] = output.argmax()
        _, terminated, truncated = env.step(actions)
        for e in np.flatnonzero(terminated | truncated | (env.lengths >= 11)):
            found.append((int(e), int(env.lengths[e])))
            memory[e] = 0
            env.reset_one(int(e))
    for e in range(2):
        own = [length for index, length in found if index == e][:3]
        assert played["episode_lengths"][e::2].tolist() == own


@pytest.mark.parametrize(
    ("recurrent", "message"),
    [
        ({"cell": "lstm", "size": 6}, "needs the cell gru"),
        ({"cell": "gru", "size": 0}, "positive size"),
        ({"cell": "gru", "size": 7}, r"policy.gru.weight_ih: shape \[18, 16\] instead of \[21, 16\]"),
        (None, "policy.gru.weight_ih: not expected"),
    ],
)
def test_refuses_layers_that_do_not_fit(recurrent: Any, message: str) -> None:
    spec = environment("Pendulum-v1", 1).spec
    given = with_memory(weights(spec))
    with pytest.raises(wire.WireError, match=message):
        policies_of(replace(given, network={**given.network, "recurrent": recurrent}), spec)


def test_refuses_a_state_with_another_memory() -> None:
    env = environment("Pendulum-v1", 1)
    state = bare(sample(env, 10))
    with pytest.raises(wire.WireError, match="memory: missing"):
        sample(env, 10, state={name: array for name, array in state.items() if name != "memory"})
    with pytest.raises(wire.WireError, match=r"memory: shape \[1, 9\]"):
        sample(env, 10, state={**state, "memory": np.zeros((1, 9), np.float32)})
    plain = policies_of(weights(env.spec), env.spec)
    with pytest.raises(wire.WireError, match="memory: not expected"):
        rollout(env, plain, seed=1, steps=10, state=state)
