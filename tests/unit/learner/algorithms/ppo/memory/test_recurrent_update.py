"""An update with memories against a recomputation step by step with torch.nn.GRUCell, and against actors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from actor_support import Game, environment, policies_of, rollout
from agents_support import team
from learner_support import job, learner_of, lone_fragment, plain
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import DEFAULT_POLICY, WeightsContainer
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.agents.gru import scan
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment
from parallel_environments import arena, several

SIZE, WIDTH, STEPS, ENVS = 5, 8, 24, 2
GAMMA, LAMBDA = 0.9, 0.8
PLAIN = {
    "preset": "paper",
    "minibatchSize": 0,
    "epochs": 2,
    "gamma": GAMMA,
    "gaeLambda": LAMBDA,
    "learningRate": 0.01,
    "klCoefficient": 0.3,
    "entropyCoefficient": 0.02,
    "valueClip": 0,
}


def one_agent(name: str = "Pendulum-v1", **settings: Any) -> tuple[Ppo, Any]:
    """A learner and its environment: Pendulum, whose episodes are cut after 7 steps, or one of
    `learner_environments`, which cuts them after 20."""
    if name == "Pendulum-v1":
        env = environment(name, ENVS, max_episode_steps=7)
    else:
        env = environment(name, ENVS, f"learner_environments:{name}")
    values = {f"algorithm__hyperparameters__{name}": v for name, v in settings.items() if name != "preset"}
    spec = job(
        settings.get("preset", "tuned"),
        environment__id=name,
        network__hiddenSizes=[WIDTH],
        network__recurrent__hiddenSize=SIZE,
        **values,
    ).spec
    learner = learner_of(spec, DescribedEnvironment.from_json(env.spec.to_json()))
    assert isinstance(learner, Ppo)
    return learner, env


def sample(learner: Ppo, env: Any, round: int, states: list[dict[str, Any]]) -> list[Fragment]:
    """A round of two slots, which go on from their states."""
    policy = policies_of(learner.weights()[DEFAULT_POLICY], env.spec)
    fragments = []
    for slot, state in enumerate(states):
        tensors = rollout(env, policy, seed=100 * round + slot, steps=STEPS * ENVS, state=state)
        fragments.append(lone_fragment({"slot": slot, "resumed": bool(state)}, tensors))
        states[slot] = bare(tensors)
    return fragments


def distributions(action: dict[str, Any], parameters: Tensor) -> list[torch.distributions.Distribution]:
    """The independent numbers of an action, by torch's own classes."""
    if action["kind"] == "continuous":
        mean, log_std = parameters.chunk(2)
        pairs = zip(mean, log_std.clamp(-20, 2).exp(), strict=True)
        return [torch.distributions.Normal(*pair) for pair in pairs]
    if action["kind"] == "multiDiscrete":
        parts = parameters.split(action["sizes"])
        return [torch.distributions.Categorical(logits=part) for part in parts]
    return [torch.distributions.Bernoulli(logits=bit) for bit in parameters]


def log_probability(each: list[torch.distributions.Distribution], action: Tensor) -> Tensor:
    chosen = zip(each, action.float(), strict=True)
    return torch.stack([one.log_prob(number) for one, number in chosen]).sum()


class Naive(nn.Module):
    """One hidden layer, torch's own cell and a head, for one observation at a time."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.p = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(p.clone()) for name, p in parameters.items()}
        )
        self.cell = nn.GRUCell(WIDTH, SIZE)
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.cell, part, self.p[f"gru_{part}"])

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.p["layers_0_weight"] @ x.float() + self.p["layers_0_bias"])
        h = self.cell(features[None], h[None])[0]
        return self.p["head_weight"] @ h + self.p["head_bias"], h


def split(parameters: dict[str, Tensor]) -> tuple[Naive, Naive]:
    parts: dict[str, dict[str, Tensor]] = {"policy": {}, "critic": {}}
    for name, value in parameters.items():
        kind, _, own = name.partition(".")
        parts[kind][own] = value
    return Naive(parts["policy"]), Naive(parts["critic"])


def advantages_of(
    fragment: Fragment, env: int, critic: Naive, h: Tensor
) -> tuple[list[float], list[float], Tensor]:
    """Advantages and values of an environment from their definitions, and the critic's memory afterwards."""
    t = plain(fragment)
    values, following, over = [], [], []
    cuts = [tuple(row) for row in np.argwhere(t["truncated"] & ~t["terminated"])]
    for step in range(STEPS):
        value, h = critic(torch.from_numpy(t["observations"][step, env]), h)
        values.append(value.item())
        over.append(bool(t["terminated"][step, env] or t["truncated"][step, env]))
        if (step, env) in cuts:
            final = t["final_observations"][cuts.index((step, env))]
            following.append(critic(torch.from_numpy(final), h)[0].item())
        else:
            following.append(None)
        h = torch.zeros(SIZE) if over[-1] else h
    following = [
        own if own is not None else values[step + 1] if step + 1 < STEPS else None
        for step, own in enumerate(following)
    ]
    if following[-1] is None:
        following[-1] = critic(torch.from_numpy(t["last_observations"][env]), h)[0].item()
    advantages = [0.0] * STEPS
    for step in reversed(range(STEPS)):
        ends = bool(t["terminated"][step, env])
        delta = t["rewards"][step, env] + GAMMA * (0 if ends else following[step]) - values[step]
        later = 0.0 if over[step] or step + 1 == STEPS else advantages[step + 1]
        advantages[step] = delta + GAMMA * LAMBDA * later
    return advantages, values, h


def loss_of(
    policy: Naive,
    critic: Naive,
    fragments: list[Fragment],
    before: Any,
    kept: Any,
    action: dict[str, Any],
    sampled: list[Tensor],
) -> Tensor:
    """PPO's mean loss over the round: `before` has advantages and returns, `kept` the critics' memories.
    `sampled` gets the log probability of each action."""
    each = []
    for slot, fragment in enumerate(fragments):
        t = {name: torch.from_numpy(np.array(value)) for name, value in plain(fragment).items()}
        for env in range(ENVS):
            h, c = t["memory"][env], kept[slot][env]
            for step in range(STEPS):
                raw, h = policy(t["observations"][step, env], h)
                value, c = critic(t["observations"][step, env], c)
                new = distributions(action, raw)
                old = distributions(action, t["distribution"][step, env])
                log_prob = log_probability(new, t["actions"][step, env])
                sampled.append(log_prob.detach())
                ratio = (log_prob - t["log_probs"][step, env]).exp()
                advantage, target = before[slot][env][0][step], before[slot][env][1][step]
                surrogate = torch.min(ratio * advantage, ratio.clamp(0.7, 1.3) * advantage)
                pairs = zip(old, new, strict=True)
                divergence = torch.stack([torch.distributions.kl_divergence(*pair) for pair in pairs]).sum()
                entropy = torch.stack([one.entropy() for one in new]).sum()
                each.append(-surrogate + 0.3 * divergence - 0.02 * entropy + (value[0] - target) ** 2)
                if t["terminated"][step, env] or t["truncated"][step, env]:
                    h, c = torch.zeros(SIZE), torch.zeros(SIZE)
    return torch.stack(each).mean()


@pytest.mark.parametrize("name", ["Pendulum-v1", "Dials", "Switches"])
def test_two_rounds_equal_a_recomputation_step_by_step(name: str) -> None:
    """Continuous, MultiDiscrete and MultiBinary actions."""
    learner, env = one_agent(name, **PLAIN)
    action = env.spec.to_json()["action"]
    if action["kind"] != "continuous":
        # A head as it begins gives nearly equal logits, whatever is remembered.
        parameters = learner.learned["agent"].parameters[None]
        learner.network("agent").named(parameters)["policy.head.weight"].mul_(100)
    states: list[dict[str, Any]] = [{}, {}]
    kept = [[torch.zeros(SIZE) for _ in range(ENVS)] for _ in states]
    adam = None
    for round in (1, 2):
        own = learner.state_dict()["policies"]["agent"]
        policy, critic = split(own["parameters"])
        parameters = [*policy.p.values(), *critic.p.values()]
        optimiser = torch.optim.Adam(parameters, 0.01, eps=1e-8)
        if adam:
            optimiser.load_state_dict(adam)
        fragments = sample(learner, env, round, states)
        assert (round == 2) == all(plain(f)["memory"].any() for f in fragments)
        with torch.no_grad():
            found = [
                [advantages_of(f, e, critic, kept[slot][e]) for e in range(ENVS)]
                for slot, f in enumerate(fragments)
            ]
        flat = np.array([[one[0] for one in slot] for slot in found])
        scaled = (flat - flat.mean()) / flat.std()
        returns = flat + np.array([[one[1] for one in slot] for slot in found])
        before = [[(scaled[s, e], returns[s, e]) for e in range(ENVS)] for s in range(2)]
        for epoch in range(2):
            optimiser.zero_grad()
            sampled: list[Tensor] = []
            loss_of(policy, critic, fragments, before, kept, action, sampled).backward()
            if epoch == 0:  # of the policy that acted
                told = np.stack([plain(f)["log_probs"].T for f in fragments]).reshape(-1)
                np.testing.assert_allclose(told, torch.stack(sampled).numpy(), rtol=0, atol=1e-5)
                assert told.std() > 0.1
            optimiser.step()
        kept = [[one[2] for one in slot] for slot in found]
        adam = optimiser.state_dict()
        # The KL penalty adapts after a round; the recomputation keeps 0.3.
        result = learner.update(fragments, round)[DEFAULT_POLICY]
        assert result.stats["kl_coefficient"] == 0.3
        after = learner.state_dict()["policies"]["agent"]
        after["kl_coefficient"] = 0.3
        learner.learned["agent"] = learner.learned["agent"].trained(
            learner.learned["agent"].parameters, learner.learned["agent"].adam, 0.3
        )
        for prefix, one in (("policy", policy), ("critic", critic)):
            for name, value in one.p.items():
                actual = next(
                    v for k, v in after["parameters"].items() if k.replace(".", "_") == f"{prefix}_{name}"
                )
                torch.testing.assert_close(actual, value.detach(), rtol=0, atol=2e-4, msg=f"{prefix} {name}")
        for slot, saved in after["memories"]["running"].items():
            np.testing.assert_allclose(saved, torch.stack(kept[int(slot)]).numpy(), atol=1e-5)


@pytest.mark.parametrize("minibatch", [0, 15])
def test_goes_on_to_the_bit(minibatch: int) -> None:
    settings = PLAIN | {"minibatchSize": minibatch, "normaliseObservations": True, "normaliseRewards": True}
    learner, env = one_agent(**settings)
    states: list[dict[str, Any]] = [{}, {}]
    learner.update(sample(learner, env, 1, states), 1)
    other, _ = one_agent(**settings)
    other.load_state_dict(learner.state_dict())
    fragments = sample(learner, env, 2, states)
    learner.update(fragments, 2)
    other.update(fragments, 2)
    for one, again in zip(
        learner.weights()[DEFAULT_POLICY].tensors.values(),
        other.weights()[DEFAULT_POLICY].tensors.values(),
        strict=True,
    ):
        assert one.tobytes() == again.tobytes()
    forgetful, _ = one_agent(**settings)
    forgetful.load_state_dict(learner.state_dict())
    assert forgetful.state_dict()["policies"]["agent"]["memories"]["running"].keys() == {"0", "1"}


@pytest.mark.parametrize("minibatch", [STEPS, 2 * STEPS])
def test_sequences_keep_what_sets_their_advantages_apart_from_those_of_others(minibatch: int) -> None:
    """A minibatch is one sequence, or two: advantages are standardised over the batch all the same."""
    weights = []
    for over in ("batch", "minibatch"):
        settings = PLAIN | {"standardiseAdvantages": over, "minibatchSize": minibatch}
        learner, env = one_agent(**settings)
        learner.update(sample(learner, env, 1, [{}, {}]), 1)
        weights.append([tensor.tobytes() for tensor in learner.weights()[DEFAULT_POLICY].tensors.values()])
    assert weights[0] == weights[1]


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["Arena", "Panel"])
def test_the_replayed_policies_are_those_that_acted(algorithm: str, shared: bool, name: str) -> None:
    """Agents that die, come back and are cut, over three rounds, with masked and continuous actions; and
    agents with MultiDiscrete actions."""
    env = arena(ENVS, cut=5) if name == "Arena" else several("panel", ENVS, "parallel_environments:Panel")
    described = env.spec.to_json()
    size = described["state"]["size"] if "state" in described else None
    fields = {"agent_ids": shared, "state_size": size, "hidden": (WIDTH,)}
    made = team(*agent_classes(described), algorithm=algorithm, settings={"epochs": 1}, **fields)
    made.network.recurrent = Recurrent(hidden_size=SIZE)
    learner, state = Ppo(made), {}
    game, classes = Game(env), {one.name for one in agent_classes(described)}
    for round in (1, 2, 3):
        weights = WeightsContainer("r", round, learner.weights(), dict(learner.agents))
        policies = game.policy(weights)
        tensors = game.rollout(
            policies, seed=round, steps=STEPS * ENVS, state=state, optional_tensors=OPTIONAL_TENSORS
        )
        resumed, state = bool(state), bare(tensors)
        by_class: dict[str, dict[str, np.ndarray]] = {group: {} for group in classes}
        once = {}
        for key, array in tensors.items():
            group, _, own = key.partition("/")
            if group in classes:
                by_class[group][own] = array
            else:
                once[key] = array
        fragment = Fragment({"slot": 0, "resumed": resumed}, once, by_class)
        for policy in learner.policies:
            batch = learner.batch(policy, [fragment], round)
            sequences, network = batch.data, learner.network(policy)
            parameters = learner.learned[policy].parameters[None]
            rows = sequences.rows
            assert len(rows.samples) == STEPS * ENVS
            alive = rows.weights > 0
            params, values = network(*network.split(parameters), sequences, scan)
            torch.testing.assert_close(params[alive], rows.samples.distribution[alive], rtol=0, atol=2e-5)
            torch.testing.assert_close(values, batch.values, rtol=0, atol=2e-5)
        learner.update([fragment], round)
    assert resumed == (name == "Arena")


def test_shared_policies_learn_from_one_agent_of_each_environment_or_from_all() -> None:
    for group_batch, count in (("equal", ENVS), ("all", 2 * ENVS)):
        env = arena(ENVS)
        described = env.spec.to_json()
        made = team(
            *agent_classes(described), algorithm="ippo", agent_ids=True, group_batch=group_batch, state_size=4
        )
        made.network.recurrent = Recurrent(hidden_size=SIZE)
        learner = Ppo(made)
        weights = WeightsContainer("r", 1, learner.weights(), dict(learner.agents))
        game = Game(env)
        tensors = game.rollout(
            game.policy(weights), seed=1, steps=STEPS * ENVS, state={}, optional_tensors=OPTIONAL_TENSORS
        )
        by_class = {
            one.name: {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith(f"{one.name}/")}
            for one in agent_classes(described)
        }
        batch = learner.batch("hunter_0", [Fragment({"slot": 0, "resumed": False}, tensors, by_class)], 1)
        assert batch.data.units == count
