"""Q-learners with a memory and actors: equal values, a game that needs the memory, and exact resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor_support import Game
from agents_support import agent_class, team
from nitro_actor.environment import Environment
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import WeightsContainer
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.checkpoints.store import CheckpointStore, load, pack
from nitro_learner.data.batch import Fragment
from parallel_environments import arena, several
from recurrent_q_support import SIZE, Watched, learner_of, remembering


def container_of(*learners: Any, round: int = 1) -> WeightsContainer:
    policies = {name: one for learner in learners for name, one in learner.weights().items()}
    agents = {agent: policy for learner in learners for agent, policy in learner.agents.items()}
    return WeightsContainer("r", round, policies, agents)


def sampled(
    container: WeightsContainer, env: Environment, steps: int, state: dict[str, Any], seed: int
) -> tuple[Fragment, dict[str, Any]]:
    """What an actor samples, and its end state."""
    game = Game(env)
    found = game.rollout(
        game.policy(container), seed=seed, steps=steps, state=state, optional_tensors=OPTIONAL_TENSORS
    )
    by_class: dict[str, dict[str, np.ndarray]] = {one.name: {} for one in env.spec.classes}
    for key, array in found.items():
        name, _, field = key.partition("/")
        if name in by_class:
            by_class[name][field] = array
    return Fragment({"slot": 0, "resumed": bool(state)}, found, by_class), bare(found)


@pytest.mark.parametrize("shared", [False, True])
def test_the_replayed_values_are_those_by_which_actors_acted(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents with masked actions that die, come back and are cut, over three rounds."""
    env = arena(2, cut=5)
    classes = agent_classes(env.spec.to_json())
    hunters, runner = ["hunter_0", "hunter_1"], ["runner_0"]
    settings = {"batchSize": 24, "epsilonInitial": 0.5, "epsilonFinal": 0.5}
    learner = learner_of(
        *classes,
        algorithm="iql",
        agents=hunters,
        settings=settings,
        agent_ids=shared,
        group_batch="all",
        reward="own",
    )
    other = team(
        *classes, algorithm="ippo", agents=runner, hidden=(6,)
    )  # the runner's actions are continuous
    other.network.recurrent = Recurrent(hidden_size=SIZE)
    runners = Ppo(other)
    begun, watched = learner.state_dict(), Watched(monkeypatch)
    for policy in begun["learned"]["policies"]["hunter"].values():
        # Heads as they begin give nearly equal values, whatever is remembered.
        policy["parameters"]["policy.head.weight"] *= 5
    learner.load_state_dict(begun)
    state: dict[str, Any] = {}
    for round in (1, 2, 3):
        fragment, state = sampled(container_of(learner, runners, round=round), env, 48, state, round)
        fields = fragment.by_class["hunter"]
        assert fields["memory"].any() == (round > 1)
        learner.update([fragment], round)
        trainer, rows = watched.trainer, watched.rows
        agents, columns = trainer.turn(48, 0)
        places = np.broadcast_to(trainer.order(rows), columns.shape)
        drawn = trainer.gather(rows, agents, columns, places)
        steps, network = drawn.by_class["hunter"].steps, trainer.learned.stacks["hunter"].network
        _, values = network.trace(watched.before["hunter"][steps.policies], steps)
        for own, acted, agent in zip(values, steps.acted.bool(), agents["hunter"], strict=True):
            told = fields["distribution"].swapaxes(0, 1).reshape(48, 2, -1)[np.arange(48), agent]
            expected = torch.from_numpy(told)
            # Actors give an action that is not available a value of its own.
            known = acted[:, None] & (expected > -1e8)
            torch.testing.assert_close(own[known], expected[known], rtol=0, atol=1e-5)
            assert expected[known].std() > 0.05
        best = fields["distribution"].argmax(-1) == fields["actions"]
        assert 0.4 < best[fields["alive"]].mean() < 1  # the others are explored
    assert any("hunter/memory" in name or name == "memory/hunter" for name in state)


@pytest.mark.slow
def test_agents_remember_their_cues_and_without_a_memory_there_is_only_chance() -> None:
    env = several("cues", 16, "memory_environments:Cues")
    classes = agent_classes(env.spec.to_json())
    settings = {
        "learningRate": 5e-3,
        "learningRateAnneal": False,
        "batchSize": 64,
        "epsilonSteps": 2_000,
        "targetUpdateSteps": 20,
        "gamma": 0.99,
        "bufferSize": 5_000,
    }
    fields = {"algorithm": "vdn", "settings": settings, "hidden": (16,), "agent_ids": True, "reward": "team"}
    plain = QLearner(team(*classes, **fields))
    returns = []
    for learner, rounds in ((learner_of(*classes, **fields), 12), (plain, 6)):
        state: dict[str, Any] = {}
        for round in range(1, rounds + 1):
            fragment, state = sampled(container_of(learner, round=round), env, 256, state, round)
            learner.update([fragment], round)
        game = Game(env)
        played = game.evaluate(game.policy(container_of(learner)), seed=1, episodes=100, max_steps=10)
        returns.append(played["episode_returns"].mean())
    assert returns[0] > 0.95
    assert returns[1] < 0.65


CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 2, size=4, masked=True))


@pytest.mark.parametrize("algorithm", ["iql", "qmix"])
def test_goes_on_from_each_checkpoint_to_the_bit(algorithm: str, tmp_path: Path) -> None:
    """The replay buffer, which three rounds fill, is a part of the checkpoints."""

    def made() -> Any:
        settings = {"bufferSize": 100, "targetUpdateSteps": 7, "batchSize": 16}
        return learner_of(*CLASSES, algorithm=algorithm, settings=settings)

    def update(learner: Any, round: int) -> None:
        fragments = [
            remembering(*CLASSES, slot=slot, length=7, envs=2, seed=round, deaths=0.1) for slot in (0, 1)
        ]
        learner.update(fragments, round)

    store, undisturbed = CheckpointStore(tmp_path, keep_last=10), made()
    for round in range(1, 6):
        update(undisturbed, round)
        store.save(round, undisturbed.state_dict())
    for begin in (1, 3):
        resumed = made()
        resumed.load_state_dict(load(store.path(begin)).state)
        for round in range(begin + 1, 6):
            update(resumed, round)
        other = CheckpointStore(tmp_path / f"from-{begin}", keep_last=1)
        other.save(5, resumed.state_dict())
        assert pack(5, load(other.path(5)).state) == pack(5, load(store.path(5)).state)
    plain = QLearner(team(*CLASSES, algorithm=algorithm, hidden=(6,), reward="team"))
    with pytest.raises(ValueError, match="the state is of the network"):
        plain.load_state_dict(load(store.path(5)).state)
