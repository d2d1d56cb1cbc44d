"""Memories of several agents: each remembers its own life, whoever shares its policy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor_support import Game
from memory_support import SIZE, all_with_memory, step, with_memory
from nitro_actor import wire
from nitro_actor.environment import Environment
from nitro_actor.policy import Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from nitro_actor.rollout import evaluate, random_sources
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, FragmentRefused, SlotRequest
from parallel_environments import arena, container

SHARED = {"hunter_0": ["hunter_0", "hunter_1"], "runner_0": ["runner_0"]}


def play(environment: Environment, steps: int, groups: Any = None, **arguments: Any) -> dict[str, Any]:
    game = Game(environment)
    policies = game.policy(all_with_memory(container(environment.spec, groups)))
    return game.rollout(
        policies, steps=steps, **{"seed": 7, "state": {}, "optional_tensors": OPTIONAL_TENSORS, **arguments}
    )


@pytest.mark.parametrize("cut", [0, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_agents_remember_their_lives(shared: bool, cut: int) -> None:
    environment = arena(2, cut=cut)
    groups = SHARED if shared else None
    found = play(environment, 60, groups)
    weights = all_with_memory(container(environment.spec, groups))
    ended = found["terminated"] | found["truncated"]
    for one in environment.spec.classes:
        alive, died = found[f"{one.name}/alive"], found[f"{one.name}/died"]
        for e in range(2):
            for i, agent in enumerate(one.agents):
                memory, lives = np.zeros(SIZE), 0
                for t in range(30):
                    output, after = step(
                        weights.policies[weights.agents[agent]],
                        found[f"{one.name}/observations"][t, e, i],
                        memory,
                    )
                    if alive[t, e, i]:
                        shown = found[f"{one.name}/distribution"][t, e, i, : len(output)]
                        possible = shown > -1e8
                        np.testing.assert_allclose(shown[possible], output[possible], atol=2e-5)
                    goes_on = alive[t, e, i] and not died[t, e, i] and not ended[t, e]
                    memory = after if goes_on else np.zeros(SIZE)
                    lives += not goes_on
                assert lives
                np.testing.assert_allclose(found[f"state/memory/{one.name}"][e, i], memory, atol=2e-5)


def test_the_learner_reads_memories_and_refuses_others() -> None:
    environment = arena(2)
    first = play(environment, 20)
    second = play(environment, 20, seed=8, state=bare(first))
    np.testing.assert_array_equal(second["hunter/memory"], first["state/memory/hunter"])
    assert second["hunter/memory"].any()
    data = FragmentContainer(
        "rollout", "run-1", 3, 1, 0, weights_version=3, seed=8, steps=20, envs=2, resumed=True, tensors=second
    ).encode()

    def read(memory: int) -> Any:
        wanted, spec = frozenset(OPTIONAL_TENSORS), DescribedEnvironment.from_json(environment.spec.to_json())
        slots = {1: SlotRequest(8, resumed=True)}
        expect = Expectation("rollout", "run-1", 3, 3, spec, 20, 2, wanted, memory, slots=slots)
        return fragments.read(data, expect)

    assert read(SIZE).by_class["hunter"]["memory"].shape == (2, 2, SIZE)
    for size in (0, SIZE + 1):
        with pytest.raises(FragmentRefused, match="memory"):
            read(size)


def test_an_evaluation_forgets_between_episodes() -> None:
    environment = arena(1)
    weights = all_with_memory(container(environment.spec))
    policies = Policies(weights, environment.spec.classes)
    played = evaluate(environment, policies, seed=3, episodes=3, max_steps=5)
    environment.reset(random_sources(3, 1)[0])
    memories = {agent: np.zeros(SIZE) for agent in environment.spec.agents}
    returns: list[np.ndarray] = []
    while len(returns) < 3:
        actions, acted = {}, {name: alive.copy() for name, alive in environment.alive.items()}
        for one in environment.spec.classes:
            outputs = []
            for i, agent in enumerate(one.agents):
                policy, seen = weights.policies[weights.agents[agent]], environment.frames[one.name][0, i]
                output, memories[agent] = step(policy, seen, memories[agent])
                outputs.append(output)
            actions[one.name] = np.array(outputs, np.float32)[None]
            if one.action["kind"] == "discrete":
                possible = np.where(environment.available[one.name], actions[one.name], -1e9)
                actions[one.name] = possible.argmax(-1)
        taken = environment.step(actions)
        over = bool(taken.terminated[0] or taken.truncated[0] or environment.lengths[0] >= 5)
        for one in environment.spec.classes:
            for i, agent in enumerate(one.agents):
                if over or taken.died[one.name][0, i] or not acted[one.name][0, i]:
                    memories[agent] = np.zeros(SIZE)
        if over:
            returns.append(environment.returns[0].copy())
            environment.reset_one(0)
    np.testing.assert_allclose(played["episode_returns"], returns, rtol=1e-5)


def test_policies_of_one_class_need_memories_of_one_size() -> None:
    spec = arena(1).spec
    weights = all_with_memory(container(spec))
    policies = dict(weights.policies)
    policies["hunter_1"] = with_memory(container(spec).policies["hunter_1"], size=SIZE + 1)
    with pytest.raises(wire.WireError, match="class hunter has memories of several sizes"):
        Policies(replace(weights, policies=policies), spec.classes)
