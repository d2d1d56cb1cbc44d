"""IPPO and MAPPO as learners of a team: what each policy learns from, groups, weights and state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents_support import agents_fragment, team
from nitro_learner.algorithms.agents.team import SharingLearner, Team
from nitro_learner.algorithms.base import StateMisfit
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.checkpoints import store
from nitro_learner.data.batch import Fragment, RewardLanes
from nitro_learner.networks.normalise import RewardNormaliser

AGENTS = ("agent_0", "agent_1", "agent_2")
TOGETHER = {"agent_1": AGENTS}


def of_three(algorithm: str = "ippo", settings: dict[str, Any] | None = None, **fields: Any) -> Team:
    """A team of three agents of one class, with small minibatches and everything normalised."""
    usual = {
        "minibatchSize": 16,
        "epochs": 2,
        "normaliseObservations": True,
        "normaliseRewards": True,
        "standardiseAdvantages": "minibatch",
    }
    return team(algorithm=algorithm, settings=usual | (settings or {}), **fields)


def round_of(slots: int = 3, **changes: Any) -> list[Fragment]:
    return [agents_fragment(slot=slot, **changes) for slot in range(slots)]


def parameters(learner: Ppo) -> dict[str, torch.Tensor]:
    """Each policy's parameters and its critic's, flat."""
    return {
        name: torch.cat([value.flatten() for value in policy["parameters"].values()])
        for name, policy in learner.state_dict()["policies"].items()
    }


def perturbed(fragments: list[Fragment], agent: int, field: str) -> list[Fragment]:
    """The fragments with another value of an agent's field in one step."""
    fields = {name: array.copy() for name, array in fragments[0].by_class["agent"].items()}
    fields[field][3, 0, agent] += 1
    changed = replace(fragments[0], by_class={"agent": fields})
    return [changed, *fragments[1:]]


def moved(made: Team, fragments: list[Fragment], others: list[Fragment]) -> set[str]:
    """The policies that end elsewhere after learning from other fragments."""
    one, other = Ppo(made), Ppo(made)
    one.update(fragments, 1)
    other.update(others, 1)
    after = parameters(other)
    return {name for name, value in parameters(one).items() if not torch.equal(value, after[name])}


RAW = {"normaliseObservations": False, "normaliseRewards": False}


def test_it_is_a_sharing_learner() -> None:
    assert isinstance(Ppo(of_three()), SharingLearner)


@pytest.mark.parametrize(
    ("algorithm", "field", "learn"),
    [
        ("ippo", "observations", {"agent_1"}),
        ("mappo", "observations", set(AGENTS)),
        ("ippo", "rewards", {"agent_1"}),
        ("mappo", "rewards", {"agent_1"}),
    ],
)
def test_what_one_agent_sees_or_gets_reaches_the_policies_that_it_should(
    algorithm: str, field: str, learn: set[str]
) -> None:
    fragments = round_of()
    found = moved(of_three(algorithm, RAW), fragments, perturbed(fragments, 1, field))
    assert found == learn


def test_with_a_team_reward_every_policy_learns_from_each_agents_reward() -> None:
    fragments = round_of()
    made = of_three("ippo", RAW, reward="team")
    assert moved(made, fragments, perturbed(fragments, 1, "rewards")) == set(AGENTS)


def test_agents_of_another_team_count_for_the_state_and_not_for_the_reward() -> None:
    fragments = round_of()
    part = of_three("mappo", RAW, reward="team", agents=AGENTS[:2])
    assert moved(part, fragments, perturbed(fragments, 2, "rewards")) == set()
    assert moved(part, fragments, perturbed(fragments, 2, "observations")) == set(AGENTS[:2])


def test_mappo_takes_the_environments_own_state_where_it_has_one() -> None:
    made = of_three("mappo", RAW, state_size=7)
    fragments = round_of(state_size=7)
    assert moved(made, fragments, perturbed(fragments, 1, "observations")) == {"agent_1"}
    tensors = dict(fragments[0].tensors)
    tensors["global_state"] = tensors["global_state"].copy()
    tensors["global_state"][2, 1, 6] += 1
    others = [replace(fragments[0], tensors=tensors), *fragments[1:]]
    assert moved(made, fragments, others) == set(AGENTS)


@pytest.mark.parametrize(
    "settings",
    [{}, {"minibatchSize": 0}, {"standardiseAdvantages": "batch"}, {"standardiseAdvantages": "off"}],
)
def test_policies_learn_the_same_whoever_trains_with_them(settings: dict[str, Any]) -> None:
    fragments = round_of(deaths=0.1)
    together = Ppo(of_three("ippo", settings))
    together.update(fragments, 1)
    # The third agent has a policy of another shape of data: it is the only one with a group.
    alone = Ppo(of_three("ippo", settings, group_batch="all"))
    start = alone.state_dict()["policies"]["agent_0"]
    alone.regroup({"agent_0": ["agent_0"], "agent_2": ["agent_1", "agent_2"]})
    assert torch.equal(alone.state_dict()["policies"]["agent_0"]["adam"]["exp_avg"], start["adam"]["exp_avg"])
    results = alone.update(fragments, 1)
    assert results["agent_0"].surrogate.size * 2 == results["agent_2"].surrogate.size
    torch.testing.assert_close(
        parameters(alone)["agent_0"], parameters(together)["agent_0"], rtol=1e-4, atol=1e-5
    )


def test_steps_of_dead_agents_teach_nothing() -> None:
    fragments = round_of(deaths=0.2)
    changed = []
    for part in fragments:
        fields = {name: array.copy() for name, array in part.by_class["agent"].items()}
        dead = ~fields["alive"]
        fields["actions"][dead] = 4
        fields["log_probs"][dead] = -3.0
        fields["distribution"][dead] = 1.0
        changed.append(replace(part, by_class={"agent": fields}))
    assert not all(part.by_class["agent"]["alive"].all() for part in fragments)
    assert moved(of_three(), fragments, changed) == set()


@pytest.mark.parametrize("preset", ["tuned", "paper"])
def test_a_policy_of_which_nobody_acted_stays_as_it_is(preset: str) -> None:
    """Its KL coefficient adapts to nothing, and the level of its critic waits for its first round."""
    learner = Ppo(team(algorithm="ippo", preset=preset))
    learner.update(round_of(), 1)
    before = learner.state_dict()["policies"]
    absent = []
    for part in round_of():
        fields = {name: array.copy() for name, array in part.by_class["agent"].items()}
        fields["alive"][..., 0] = fields["died"][..., 0] = False
        absent.append(replace(part, by_class={"agent": fields}))
    results = learner.update(absent, 2)
    after = learner.state_dict()["policies"]
    for name in AGENTS:
        old, new = before[name]["parameters"], after[name]["parameters"]
        assert all(torch.equal(value, old[key]) for key, value in new.items()) == (name == "agent_0")
    assert torch.equal(after["agent_0"]["adam"]["exp_avg"], before["agent_0"]["adam"]["exp_avg"])
    assert after["agent_0"]["kl_coefficient"] == before["agent_0"]["kl_coefficient"]
    assert set(results["agent_0"].stats) == {"learning_rate", "kl_coefficient"}
    assert {"kl", "explained_variance"} <= set(results["agent_1"].stats)


def test_agents_that_live_as_long_as_their_episode_need_no_lives_in_fragments() -> None:
    fragments, without = round_of(), []
    for part in fragments:
        fields = {name: a for name, a in part.by_class["agent"].items() if name not in ("alive", "died")}
        without.append(replace(part, by_class={"agent": fields}))
    assert moved(of_three(), fragments, without) == set()


def test_a_shared_policy_learns_from_as_much_as_one_agent_has_or_from_all() -> None:
    fragments = round_of()
    sizes = {}
    for batch in ("equal", "all"):
        learner = Ppo(of_three(group_batch=batch))
        learner.regroup(TOGETHER)
        assert (learner.policies, learner.agents) == (("agent_1",), dict.fromkeys(AGENTS, "agent_1"))
        sizes[batch] = learner.update(fragments, 1)["agent_1"].surrogate.size
    assert sizes == {"equal": 3 * 12 * 2, "all": 3 * 3 * 12 * 2}


def test_equal_data_comes_from_all_agents_of_a_group() -> None:
    fragments = round_of()
    made = of_three("ippo", RAW | {"minibatchSize": 0})
    learner = Ppo(made)
    learner.regroup(TOGETHER)
    seen = learner.update(fragments, 1)["agent_1"].surrogate.samples.samples.observations  # type: ignore[attr-defined]
    fields = [part.by_class["agent"]["observations"] for part in fragments]
    agent_of = {tuple(row): i for f in fields for i in range(3) for row in f[:, :, i].reshape(-1, 4)}
    counts = np.bincount([agent_of[tuple(row)] for row in seen.numpy()], minlength=3)
    assert counts.sum() == 72
    assert counts.min() > 12


def test_regrouping_copies_a_policy_with_all_that_belongs_to_it() -> None:
    learner = Ppo(of_three("mappo"))
    learner.update(round_of(), 1)
    before = learner.state_dict()["policies"]
    learner.regroup(TOGETHER)
    learner.regroup({agent: [agent] for agent in AGENTS})
    after = learner.state_dict()["policies"]
    for agent in AGENTS:
        for name in ("parameters", "adam"):
            for key, value in before["agent_1"][name].items():
                assert torch.equal(after[agent][name][key], value)
        for name in ("observations", "states"):
            np.testing.assert_array_equal(after[agent][name]["mean"], before["agent_1"][name]["mean"])
        assert after[agent]["rewards"]["running"] == {}
    # From here on each learns by itself.
    learner.update(round_of(seed=1), 2)
    weights = parameters(learner)
    assert not torch.equal(weights["agent_0"], weights["agent_1"])


def test_groups_that_stay_keep_their_policies_and_their_episodes() -> None:
    learner = Ppo(of_three())
    learner.update(round_of(), 1)
    before = learner.state_dict()["policies"]["agent_0"]
    learner.regroup({"agent_0": ["agent_0"], "agent_2": ["agent_1", "agent_2"]})
    after = learner.state_dict()["policies"]["agent_0"]
    np.testing.assert_array_equal(after["rewards"]["running"]["0"], before["rewards"]["running"]["0"])
    assert learner.policies == ("agent_0", "agent_2")


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_a_run_goes_on_from_a_checkpoint_to_the_bit(algorithm: str, tmp_path: Path) -> None:
    made = of_three(algorithm)
    whole = Ppo(made)
    for round in (1, 2):
        whole.update(round_of(seed=round), round)
        if round == 1:
            whole.regroup({"agent_0": ["agent_0", "agent_2"], "agent_1": ["agent_1"]})
    store.write(tmp_path / "state", 2, whole.state_dict())
    resumed = Ppo(made)
    resumed.load_state_dict(store.load(tmp_path / "state").state)
    assert resumed.agents == whole.agents
    for learner in (whole, resumed):
        learner.update(round_of(seed=3, resumed=True), 3)
    found = parameters(resumed)
    for name, value in parameters(whole).items():
        assert torch.equal(found[name], value)
    kept = {name: weights.tensors for name, weights in resumed.weights().items()}
    for name, weights in whole.weights().items():
        for tensor, value in weights.tensors.items():
            np.testing.assert_array_equal(kept[name][tensor], value)


def test_a_state_of_another_network_is_refused() -> None:
    state = Ppo(of_three(hidden=(8, 8))).state_dict()
    with pytest.raises(StateMisfit, match="hidden"):
        Ppo(of_three()).load_state_dict(state)


def test_agents_start_with_different_policies_that_the_seed_determines() -> None:
    first, again = parameters(Ppo(of_three())), parameters(Ppo(of_three()))
    other = parameters(Ppo(of_three(seed=1)))
    assert all(torch.equal(first[agent], again[agent]) for agent in AGENTS)
    rows = [*first.values(), *other.values()]
    assert all(not torch.equal(a, b) for i, a in enumerate(rows) for b in rows[:i])


def test_with_agent_ids_a_policy_is_told_whom_it_plays() -> None:
    learner = Ppo(of_three("mappo", agent_ids=True))
    assert learner.policies == ("agent_0",)
    weights = learner.weights()["agent_0"]
    assert weights.network["agentIds"] == 3
    assert weights.tensors["policy.layers.0.weight"].shape == (16, 4 + 3)
    assert weights.tensors["observation.mean"].shape == (4,)
    learner.update(round_of(), 1)
    observations = np.random.default_rng(0).standard_normal((32, 4), np.float32)
    assert learner.distances(AGENTS, observations, None)[0, 1] > 0


def test_distances_are_the_divergence_between_what_the_agents_would_do() -> None:
    learner = Ppo(of_three())
    learner.update(round_of(), 1)
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((64, 4)).astype(np.float32)
    available = rng.random((64, 5)) < 0.6
    available[:, 0] = True
    found = learner.distances(["agent_2", "agent_0"], observations, available)
    log_p = []
    for name in ("agent_2", "agent_0"):
        t = learner.weights()[name].tensors
        scale = np.sqrt(t["observation.var"] + 1e-8)
        h = np.clip((observations - t["observation.mean"]) / scale, -10, 10)
        for layer in range(2):
            h = np.tanh(h @ t[f"policy.layers.{layer}.weight"].T + t[f"policy.layers.{layer}.bias"])
        logits = np.where(available, h @ t["policy.head.weight"].T + t["policy.head.bias"], -np.inf)
        log_p.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
    with np.errstate(invalid="ignore"):
        expected = [
            [np.nansum(np.exp(p) * np.where(available, p - q, 0), axis=-1).mean() for q in log_p]
            for p in log_p
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)
    assert found[0, 1] > 0


def test_the_learning_rate_falls_to_its_last_round() -> None:
    learner = Ppo(of_three("ippo", {"learningRateAnneal": True}, rounds=4))
    rates = [learner.update(round_of(), k)["agent_0"].stats["learning_rate"] for k in (1, 3, 4)]
    assert rates == pytest.approx([rates[0], rates[0] / 2, rates[0] / 4])
    learner.begin_round(5, 8)
    assert learner.update(round_of(), 5)["agent_0"].stats["learning_rate"] == pytest.approx(rates[0] / 2)


def test_each_policy_adapts_its_own_kl_penalty() -> None:
    learner = Ppo(of_three("ippo", {"klCoefficient": 0.2, "klTarget": 1e-9}, agents=AGENTS[:2]))
    state = learner.state_dict()
    state["policies"]["agent_1"]["kl_coefficient"] = 0.7
    learner.load_state_dict(state)
    results = learner.update(round_of(), 1)
    assert [results[agent].stats["kl_coefficient"] for agent in AGENTS[:2]] == [0.2, 0.7]
    after = learner.state_dict()["policies"]
    assert [after[agent]["kl_coefficient"] for agent in AGENTS[:2]] == pytest.approx([0.3, 1.05])


def test_a_round_that_makes_weights_infinite_is_refused_with_the_policy() -> None:
    fragments = round_of()
    fields = {name: array.copy() for name, array in fragments[0].by_class["agent"].items()}
    fields["rewards"][0, 0, 2] = np.inf
    broken = [replace(fragments[0], by_class={"agent": fields}), *fragments[1:]]
    with pytest.raises(FloatingPointError, match="round 1: the weights of the policy agent_2"):
        Ppo(of_three("ippo", RAW)).update(broken, 1)


@pytest.mark.parametrize(
    ("fragments", "message"),
    [
        ([], "without fragments"),
        ([agents_fragment(slot=1), agents_fragment(slot=0)], "sorted by slot"),
        ([agents_fragment(slot=0), agents_fragment(slot=1, length=5)], "same steps and environments"),
    ],
)
def test_fragments_that_are_no_round_are_refused(fragments: list[Fragment], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ppo(of_three()).update(fragments, 1)


@pytest.mark.parametrize("deaths", [0.0, 0.2])
def test_a_critic_of_scaled_rewards_begins_at_the_level_of_its_first_round(deaths: float) -> None:
    """A critic that begins at 0 falls for many rounds, and rates the ends of episodes too high meanwhile.
    Nothing follows an agent's death, even though the episode of the others goes on."""
    made = of_three("mappo", {"learningRate": 1e-12})
    learner, bias = Ppo(made), "critic.head.bias"
    first, second = ([agents_fragment(ends=0.1, deaths=deaths, seed=seed)] for seed in (1, 2))
    begin = {name: policy["parameters"][bias] for name, policy in learner.state_dict()["policies"].items()}
    learner.update(first, 1)
    after = learner.state_dict()["policies"]
    learner.update(second, 2)
    later = learner.state_dict()["policies"]
    ended, cut = first[0].tensors["terminated"], first[0].tensors["truncated"]
    for i, agent in enumerate(AGENTS):
        rewards = first[0].by_class["agent"]["rewards"][..., i]
        alive, died = (first[0].by_class["agent"][name][..., i] for name in ("alive", "died"))
        lanes = RewardLanes(first[0].slot, first[0].resumed, rewards, ended | cut | died, alive)
        (scaled,) = RewardNormaliser(made.settings.gamma)([lanes])
        last = (ended | died)[alive]
        level = scaled[alive].mean() / (1 - made.settings.gamma * (1 - last.mean()))
        found = after[agent]["parameters"][bias] - begin[agent]
        np.testing.assert_allclose(found.item(), level, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(later[agent]["parameters"][bias], after[agent]["parameters"][bias])
