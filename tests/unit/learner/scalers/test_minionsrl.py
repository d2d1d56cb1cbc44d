"""MinionsRL: what its agent sees and is rewarded with, that it learns, its file, and its scaler."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner_support import job
from nitro_api.costs.prices import RoundCost
from nitro_learner.checkpoints.store import CheckpointStore, pack, write
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import OpenRun, open_run, summary
from nitro_learner.scalers import RoundOutcome, Scaler
from nitro_learner.scalers.agent import AgentError, Choice, ScalingAgent, Spent, features
from nitro_learner.training.round_report import Outcome
from scaler_support import make

OUTCOME = RoundOutcome(
    round=3,
    actors=16,
    statistics={"policy_loss": -0.5, "kl": 0.01, "value_loss": 7.0},
    reward_mean=120.0,
    reward_round=130.0,
    seconds=2.5,
    learner_seconds=1.5,
    actor_seconds=0.75,
    cost=0.02,
)


def agent(most: int = 11, seed: int = 0) -> ScalingAgent:
    return ScalingAgent(8, most, task={"environment": "Hopper-v5"}, seed=seed)


def episode(trained: ScalingAgent, number: int, rounds: int = 30) -> tuple[list[Choice], list[float]]:
    """A made-up training run: each round takes a second for each actor above the fewest."""
    generator = np.random.default_rng([7, number])
    choices = []
    for k in range(1, rounds + 1):
        facts: dict[str, Any] = {"round": k, "actors": 8, "cost": k / rounds}
        seconds = 2 + 0.2 * generator.random()
        reward = 20.0 * k * (1 + 0.2 * generator.standard_normal())
        seen = features(RoundOutcome(**facts, reward_mean=reward, seconds=seconds), budget=1.0)
        choices.append(trained.sample(seen, generator))
    return choices, [-float(choice.index) for choice in choices]


def test_the_agents_features_describe_the_round() -> None:
    seen = features(OUTCOME, budget=0.08)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, [4, -0.5, 130, 0.01, 1.5, 0.75, 2.5, 0.75])
    assert features(replace(OUTCOME, reward_round=None), 1.0)[2] == 120, "no episode ended in that round"
    assert features(OUTCOME, budget=0.01)[-1] == 0, "overspent"
    np.testing.assert_array_equal(features(RoundOutcome(round=1, actors=8), 1.0), [2, 0, 0, 0, 0, 0, 0, 1])


def test_a_decision_carries_the_log_probability_of_its_policy() -> None:
    trained = agent()
    seen = features(OUTCOME, 1.0)
    choice = trained.sample(seen, np.random.default_rng(0))
    expected = torch.from_numpy(choice.logits).log_softmax(0)[choice.index].item()
    assert choice.log_prob == pytest.approx(expected, abs=1e-6)
    np.testing.assert_array_equal(choice.logits, trained.logits(seen))
    drawn = [trained.sample(seen, np.random.default_rng(seed)).index for seed in range(400)]
    shares = np.bincount(drawn, minlength=4) / 400
    np.testing.assert_allclose(shares, np.exp(choice.logits) / np.exp(choice.logits).sum(), atol=0.1)
    assert trained.best(seen) == 8 + int(np.argmax(choice.logits))


@pytest.mark.slow
def test_the_agent_learns_the_cheapest_number_of_actors() -> None:
    trained = agent()
    chosen = []
    for number in range(120):
        choices, followed = episode(trained, number)
        trained.learn(choices, followed)
        chosen.append(np.mean([choice.index for choice in choices]))
    assert np.mean(chosen[:3]) > 1.0
    # Six series of episodes are below 0.05 by now; how soon depends on how a processor rounds.
    assert np.mean(chosen[-3:]) < 0.3
    assert trained.episodes == 120


def test_an_episode_of_one_round_only_counts() -> None:
    trained, untouched = agent(), agent()
    trained.learn([], [])
    assert trained.episodes == 1
    np.testing.assert_array_equal(
        trained.logits(features(OUTCOME, 1.0)), untouched.logits(features(OUTCOME, 1.0))
    )


@pytest.mark.slow
def test_training_continues_from_the_file_to_the_bit(tmp_path: Path) -> None:
    whole, part = agent(), agent()
    for number in range(4):
        whole.learn(*episode(whole, number))
    for number in range(2):
        part.learn(*episode(part, number))
    part.spent = Spent(episodes=2, rounds=24, env_steps=100, seconds=3.5, learner=0.25, actors=0.5)
    part.save(tmp_path / "deep" / "agent.safetensors")
    loaded = ScalingAgent.load(tmp_path / "deep" / "agent.safetensors")
    assert (loaded.fewest, loaded.most, loaded.episodes, loaded.task) == (
        8,
        11,
        2,
        {"environment": "Hopper-v5"},
    )
    assert loaded.spent == part.spent
    assert loaded.spent.dollars == 0.75
    for number in range(2, 4):
        loaded.learn(*episode(loaded, number))
    seen = features(OUTCOME, 1.0)
    np.testing.assert_array_equal(loaded.logits(seen), whole.logits(seen))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["agent.safetensors"]


def scaler(path: Path, **settings: Any) -> Scaler:
    return make(
        scaler="minionsrl",
        agent=str(path),
        stop={"target_reward": 500.0, "budget_dollars": 0.08},
        **{"max_actors": 11, "initial_actors": 9} | settings,
    )


def test_the_scaler_takes_the_most_probable_action(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    trained = agent(seed=3)
    trained.save(path)
    asked = scaler(path)
    assert asked.initial == 9
    assert not asked.needs
    for number in range(1, 9):
        outcome = RoundOutcome(round=number, actors=9, reward_mean=-50.0 * number, cost=0.01 * number)
        assert asked.decide(outcome).actors == trained.best(features(outcome, 0.08))


@pytest.mark.slow
def test_a_resumed_run_keeps_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    agent(seed=3).save(path)
    state = scaler(path).state_dict()
    pack(1, state)  # it is something that a checkpoint can hold
    agent(seed=4).save(path)
    resumed, fresh = scaler(path), scaler(path)
    resumed.load_state_dict(state)
    outcomes = [RoundOutcome(round=k, actors=8, reward_mean=-20.0 * k, cost=0.002 * k) for k in range(1, 40)]
    path.unlink()
    without = scaler(path)
    without.load_state_dict(state)
    decided = [resumed.decide(outcome).actors for outcome in outcomes]
    assert [without.decide(outcome).actors for outcome in outcomes] == decided, "the file is gone"
    assert decided == [agent(seed=3).best(features(outcome, 0.08)) for outcome in outcomes]
    assert decided != [fresh.decide(outcome).actors for outcome in outcomes]


def test_a_file_that_cannot_be_used_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    with pytest.raises(
        AgentError, match=r"agent.safetensors does not exist; make it with `nitro pretrain-sc"
    ):
        scaler(path).decide(OUTCOME)
    agent().save(path)
    with pytest.raises(
        AgentError, match="chooses 8 to 11 actors, but minActors is 8 and maxActors 64; set the"
    ):
        scaler(path, max_actors=64).decide(OUTCOME)
    whole = path.read_bytes()
    for spoilt in (whole[:-100], b"", whole[:-1] + b"!"):
        path.write_bytes(spoilt)
        with pytest.raises(AgentError, match=r"is no scaling agent .*damaged"):
            scaler(path).decide(OUTCOME)
    write(path, 1, {"training": {"round": 1}})
    with pytest.raises(AgentError, match="is no scaling agent"):
        scaler(path).decide(OUTCOME)


def run_of(folder: Path, path: Path, **scaler_state: Any) -> OpenRun:
    """A run with that agent, and a checkpoint with that state of its scaler."""
    scaling = {"scaling__scaler": "minionsrl", "scaling__agent": path, "scaling__maxActors": 11}
    aims = {"stop__targetReward": 500, "stop__budgetDollars": 0.08}
    store = CheckpointStore(folder / "checkpoints", keep_last=1)
    if scaler_state:
        store.save(1, {"run": "abc", "scaler": scaler_state})
    spec = job("paper", **scaling, **aims)
    return OpenRun(spec, "abc", store, store.latest(), folder=RunDir(folder))


def test_the_summary_describes_the_pre_training_of_the_agent(tmp_path: Path) -> None:
    path, outcome = (
        tmp_path / "agent.safetensors",
        Outcome("RoundsDone", "", True, 1, RoundCost(0.0, 0.0), 0.0),
    )
    used = agent()
    used.spent = Spent(episodes=2, learner=0.25)
    used.save(path)
    state = scaler(path).state_dict()
    used.spent = Spent(episodes=5, learner=0.75)  # trained further since
    used.save(path)
    told = [
        summary(run_of(tmp_path / name, path, **kept), outcome, None)["pretraining"]["episodes"]
        for name, kept in (("new", state), ("unbegun", {}))
    ]
    assert told == [2, 5]
    path.unlink()
    assert summary(run_of(tmp_path / "new", path, **state), outcome, None)["pretraining"]["learner"] == 0.25
    assert "pretraining" not in summary(run_of(tmp_path / "unbegun", path), outcome, None)


def test_a_run_needs_the_agent_file_only_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    folder, spec = RunDir(tmp_path / "run"), run_of(tmp_path / "other", path).job
    with pytest.raises(AgentError, match="does not exist"):
        open_run(folder, spec, resume=False)
    assert not folder.path.exists()
    agent().save(path)
    begun = open_run(folder, spec, resume=False)
    begun.checkpoints.save(0, {"run": begun.id})
    path.unlink()
    assert open_run(folder, spec, resume=True).id == begun.id
