"""An update of IPPO and MAPPO against plain recomputations: advantages of agents that die, each policy's
training by torch's own autograd and Adam, and PPO of one agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agents_support import agent_class, agents_fragment, team
from learner_support import HOPPER, fragment, job, learner_of, lone_fragment, plain
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import UNAVAILABLE

GAMMA, LAMBDA = 0.9, 0.8

PLAIN = {
    "minibatchSize": 0,
    "normaliseObservations": False,
    "normaliseRewards": False,
    "learningRateAnneal": False,
    "epochs": 3,
    "gamma": GAMMA,
    "gaeLambda": LAMBDA,
    "standardiseAdvantages": "batch",
    "learningRate": 0.01,
}
"""Settings that leave only the loss and the optimiser to recompute."""


def naive_advantages(
    part: Fragment, one: AgentClass, agent: int, env: int, values: np.ndarray, last: float, final: list[float]
) -> dict[int, float]:
    """The advantage of each step in which an agent acts, straight from the definition: delta of a step, plus
    gamma lambda times what the definition gives one step later.

    Args:
        part: the fragment.
        one: the agent's class.
        agent: the agent's place in it.
        env: the environment.
        values: V of each step [L].
        last: V after the last step.
        final: V at the end of each truncated episode of this environment, in order.
    """
    fields = part.by_class[one.name]
    reward, alive, died = (fields[name][:, env, agent] for name in ("rewards", "alive", "died"))
    terminated, truncated = (part.tensors[name][:, env] for name in ("terminated", "truncated"))
    cuts = [t for t in range(len(reward)) if truncated[t] and not terminated[t]]

    def worth(t: int) -> float:
        """What is expected from step t on."""
        return float(values[t]) if alive[t] else float(reward[t]) + GAMMA * after(t)

    def after(t: int) -> float:
        """What is expected after step t."""
        if terminated[t] or (alive[t] and died[t]):
            return 0.0
        if truncated[t]:
            return final[cuts.index(t)]
        return last if t + 1 == len(reward) else worth(t + 1)

    def advantage(t: int) -> float:
        delta = float(reward[t]) + GAMMA * after(t) - worth(t)
        ends = terminated[t] or truncated[t] or (alive[t] and died[t]) or t + 1 == len(reward)
        return delta if ends else delta + GAMMA * LAMBDA * advantage(t + 1)

    return {t: advantage(t) for t in range(len(reward)) if alive[t]}


@pytest.mark.parametrize("seed", range(5))
def test_advantages_of_agents_that_die_and_come_back_follow_the_definition(seed: int) -> None:
    one, rng = agent_class(agents=3), np.random.default_rng(seed)
    fragments = [
        agents_fragment(one, slot=slot, envs=2, length=15, deaths=0.15, returns=0.3, seed=seed)
        for slot in range(2)
    ]
    positions = [0, 2]
    rollouts = PolicyRollouts(team(one, algorithm="ippo"), one, positions, fragments)
    values: dict[When, np.ndarray] = {
        "": rng.standard_normal((2, 15, 2, 2)),
        "last_": rng.standard_normal((2, 2, 2)),
        "final_": rng.standard_normal((sum(int(f.tensors["truncated"].sum()) for f in fragments), 2)),
    }
    found = rollouts.estimates(
        [f.by_class["agent"]["rewards"][:, :, positions].reshape(15, -1) for f in fragments],
        lambda when: values[when].reshape(-1).astype(np.float32),
        gamma=GAMMA,
        gae_lambda=LAMBDA,
    )
    advantages = found.advantages.reshape(2, 15, 2, 2)
    row = 0
    checked = 0
    for slot, part in enumerate(fragments):
        cuts = np.argwhere(part.tensors["truncated"])
        own = values["final_"][row : row + len(cuts)]
        row += len(cuts)
        for env in range(2):
            for k, agent in enumerate(positions):
                final = [float(v[k]) for v, (_, e) in zip(own, cuts, strict=True) if e == env]
                steps, last = values[""][slot, :, env, k], float(values["last_"][slot, env, k])
                for t, expected in naive_advantages(part, one, agent, env, steps, last, final).items():
                    assert advantages[slot, t, env, k] == pytest.approx(expected, rel=1e-4, abs=1e-5)
                    checked += 1
    alive = sum(f.by_class["agent"]["alive"][:, :, positions].sum() for f in fragments)
    assert checked == alive < 2 * 15 * 2 * 2


def forward(tensors: dict[str, Tensor], network: str, x: Tensor) -> Tensor:
    """A network's output by plain torch."""
    for layer in range(2):
        x = torch.tanh(
            x @ tensors[f"{network}.layers.{layer}.weight"].T + tensors[f"{network}.layers.{layer}.bias"]
        )
    return x @ tensors[f"{network}.head.weight"].T + tensors[f"{network}.head.bias"]


def states_of(part: Fragment, when: str) -> np.ndarray:
    """All agents' observations together, by name of class, [..., S]."""
    arrays = [part.by_class[name][f"{when}observations"] for name in sorted(part.by_class)]
    return np.concatenate([a.reshape(*a.shape[:-2], -1) for a in arrays], axis=-1)


def recomputed(
    algorithm: Ppo, made: Team, one: AgentClass, agent: int, fragments: list[Fragment]
) -> dict[str, Tensor]:
    """A policy's parameters after an update, by a training of its own: rows of agents that are not alive are
    left out, everything else is plain torch."""
    settings: Any = made.settings
    name = one.agents[agent]
    tensors = {
        key: value.clone().requires_grad_()
        for key, value in algorithm.state_dict()["policies"][name]["parameters"].items()
    }
    central = made.algorithm == "mappo"
    rows: dict[str, list[Any]] = {key: [] for key in ("x", "s", "a", "old", "logp", "mask", "adv", "ret")}
    for part in fragments:
        fields = part.by_class[one.name]

        def seen(when: str, part: Fragment = part, fields: Any = fields) -> Tensor:
            own = fields[f"{when}observations"][..., agent, :]
            return torch.from_numpy(np.ascontiguousarray(states_of(part, when) if central else own))

        with torch.no_grad():
            steps, last, final = (
                forward(tensors, "critic", seen(w))[..., 0].numpy() for w in ("", "last_", "final_")
            )
        cuts = np.argwhere(part.tensors["truncated"])
        for env in range(part.tensors["truncated"].shape[1]):
            own = [float(v) for v, (_, e) in zip(final, cuts, strict=True) if e == env]
            found = naive_advantages(part, one, agent, env, steps[:, env], float(last[env]), own)
            for t, advantage in found.items():
                rows["x"].append(fields["observations"][t, env, agent])
                rows["s"].append(seen("")[t, env])
                rows["a"].append(fields["actions"][t, env, agent])
                rows["old"].append(fields["distribution"][t, env, agent])
                rows["logp"].append(fields["log_probs"][t, env, agent])
                if "available" in fields:
                    rows["mask"].append(fields["available"][t, env, agent])
                rows["adv"].append(advantage)
                rows["ret"].append(advantage + steps[t, env])
    columns = {key: torch.as_tensor(np.array(value)) for key, value in rows.items() if value}
    advantages = columns["adv"].float()
    advantages = (advantages - advantages.mean()) / advantages.std(correction=0)
    optimiser = torch.optim.Adam(list(tensors.values()), lr=settings.learning_rate, eps=settings.adam_epsilon)
    for _ in range(settings.epochs):
        output = forward(tensors, "policy", columns["x"])
        if one.action["kind"] == "continuous":
            size = one.action["size"]
            old = torch.distributions.Normal(columns["old"][:, :size], columns["old"][:, size:].exp())
            new = torch.distributions.Normal(output[:, :size], output[:, size:].exp())
            log_prob, entropy = new.log_prob(columns["a"]).sum(-1), new.entropy().sum(-1)
            kl = torch.distributions.kl_divergence(old, new).sum(-1)
        else:
            if "mask" in columns:
                output = output.masked_fill(~columns["mask"], UNAVAILABLE)
            new = torch.distributions.Categorical(logits=output)
            log_prob, entropy = new.log_prob(columns["a"]), new.entropy()
            kl = torch.distributions.kl_divergence(
                torch.distributions.Categorical(logits=columns["old"]), new
            )
        ratio = (log_prob - columns["logp"]).exp()
        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
        error = (forward(tensors, "critic", columns["s"])[:, 0] - columns["ret"].float()) ** 2
        if settings.value_clip:
            error = error.clamp(max=settings.value_clip)
        loss = (
            -torch.min(ratio * advantages, clipped * advantages)
            + settings.kl_coefficient * kl
            - settings.entropy_coefficient * entropy
            + settings.value_coefficient * error
        ).mean()
        optimiser.zero_grad()
        loss.backward()
        if settings.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(list(tensors.values()), settings.max_grad_norm)
        optimiser.step()
    return {key: value.detach() for key, value in tensors.items()}


CLASSES = {
    "discrete": [agent_class("agent", 3)],
    "masked": [agent_class("agent", 2, masked=True)],
    "continuous": [agent_class("agent", 2, actions=2, continuous=True)],
    "two classes": [agent_class("agent", 2), agent_class("adversary", 1, size=3, actions=4)],
}


@pytest.mark.parametrize("classes", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("preset", ["paper", "tuned"])
@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_policies_that_train_together_end_where_each_ends_alone(
    algorithm: str, preset: str, classes: list[AgentClass]
) -> None:
    made = team(*classes, algorithm=algorithm, preset=preset, settings=PLAIN)
    learner = Ppo(made)
    fragments = [
        agents_fragment(*classes, slot=slot, length=20, deaths=0.05, returns=0.2) for slot in range(3)
    ]
    expected = {
        agent: recomputed(learner, made, one, index, fragments)
        for one in classes
        for index, agent in enumerate(one.agents)
    }
    learner.update(fragments, 1)
    for agent, policy in learner.state_dict()["policies"].items():
        for name, value in policy["parameters"].items():
            torch.testing.assert_close(
                value,
                expected[agent][name],
                rtol=2e-3,
                atol=2e-4,
                msg=lambda text, n=name, a=agent: f"{a} {n}: {text}",
            )


@pytest.mark.parametrize("log_std", ["state", "parameter"])
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_a_team_of_one_agent_learns_as_ppo_does(preset: str, log_std: str) -> None:
    settings = {"algorithm__hyperparameters__minibatchSize": 0, "network__logStd": log_std}
    single, learner = _both(preset, settings)
    for round in (1, 2):
        # A team's critic begins at the level of the rewards: here 0, so that it begins as PPO's.
        fragments = _centred([fragment(slot, envs=2, seed=round, resumed=round == 2) for slot in range(3)])
        expected = single.update(fragments, round)[DEFAULT_POLICY]
        found = learner.update([_of_one(part) for part in fragments], round)["agent_0"]
        assert found.stats == pytest.approx(expected.stats, rel=1e-3, abs=1e-5)
    parameters = learner.state_dict()["policies"]["agent_0"]["parameters"]
    for name, value in single.state_dict()["parameters"].items():
        torch.testing.assert_close(parameters[name], value, rtol=1e-3, atol=1e-5)
    own, published = single.weights()[DEFAULT_POLICY], learner.weights()["agent_0"]
    assert published.meta == own.meta
    assert published.tensors.keys() == own.tensors.keys()
    if preset == "tuned":
        np.testing.assert_allclose(published.tensors["observation.var"], own.tensors["observation.var"])


@pytest.mark.parametrize("over", ["off", "batch", "minibatch"])
def test_a_team_of_one_agent_reports_of_minibatches_what_ppo_reports(over: str) -> None:
    """The order of samples differs, so hardly anything is learned here."""
    own = {"minibatchSize": 64, "standardiseAdvantages": f"'{over}'", "learningRate": 1e-12}
    single, learner = _both("tuned", {f"algorithm__hyperparameters__{name}": v for name, v in own.items()})
    fragments = _centred([fragment(slot, envs=2, seed=1) for slot in range(3)])
    expected: Any = single.update(fragments, 1)[DEFAULT_POLICY]
    found: Any = learner.update([_of_one(part) for part in fragments], 1)["agent_0"]
    # Other minibatches have other gradients, of about the same norm.
    norms = [result.stats.pop("gradient_norm") for result in (found, expected)]
    assert norms[0] == pytest.approx(norms[1], rel=0.2)
    assert found.stats == pytest.approx(expected.stats, rel=1e-3, abs=1e-5)
    advantages = found.surrogate.samples.samples.advantages
    torch.testing.assert_close(advantages, expected.surrogate.samples.advantages, rtol=1e-3, atol=1e-4)


def _both(preset: str, settings: dict[str, Any]) -> tuple[Ppo, Ppo]:
    """PPO, and IPPO of one agent that begins with the same parameters."""
    spec = job(preset, **settings).spec
    single = learner_of(spec, HOPPER)
    one = replace(agent_class(agents=1, size=11, actions=3, continuous=True), action=HOPPER.only_class.action)
    made = replace(
        team(one, algorithm="ippo", preset=preset),
        settings=spec.algorithm.hyperparameters,
        network=spec.network,
        rounds=spec.stop.rounds,
    )
    learner = Ppo(made)
    state = learner.state_dict()
    state["policies"]["agent_0"]["parameters"] = single.state_dict()["parameters"]
    learner.load_state_dict(state)
    return single, learner


def _centred(fragments: list[Fragment]) -> list[Fragment]:
    """The fragments with rewards whose mean is 0."""
    mean = np.mean([plain(one)["rewards"] for one in fragments])
    return [
        lone_fragment(one.meta, plain(one) | {"rewards": plain(one)["rewards"] - mean}) for one in fragments
    ]


def _of_one(part: Fragment) -> Fragment:
    """A fragment of one agent as an environment that lists classes sends it."""
    shape = (*plain(part)["rewards"].shape, 1)
    fields = dict(part.by_class["agent"]) | {"alive": np.ones(shape, bool), "died": np.zeros(shape, bool)}
    return Fragment(part.meta, part.tensors, {"agent": fields})
