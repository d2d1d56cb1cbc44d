"""One gradient step against PyTorch's autograd and Adam on networks of nn.Module."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from agents_support import agent_class, agents_fragment, team
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.mixers import mixer_of
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.algorithms.replay.transitions import columns_of, rows_of
from nitro_learner.data.batch import Fragment

BATCH = 24
RATE = 0.01


class Drawn:
    """Replaces `ReplayBuffer.draw`, to know what was drawn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.columns: Any = None
        self.rows: Any = None
        original = ReplayBuffer.draw

        def draw(replay: ReplayBuffer, columns: Any, shares: Any) -> Any:
            self.rows, probabilities = original(replay, columns, shares)
            self.columns = np.broadcast_to(columns, shares.shape)
            # As of rows that are drawn with different probabilities.
            probabilities = probabilities * np.linspace(1, 3, shares.shape[1])
            self.weights = (replay.counts[self.columns] * probabilities) ** -0.4
            self.weights /= self.weights.max(1, keepdims=True)
            return self.rows, probabilities

        monkeypatch.setattr(ReplayBuffer, "draw", draw)


class Network(nn.Module):
    """A dueling network from published tensors."""

    def __init__(self, weights: PolicyWeights) -> None:
        super().__init__()
        self.parts = nn.ParameterDict(
            {
                name.removeprefix("policy.").replace(".", "_"): nn.Parameter(torch.tensor(array))
                for name, array in weights.tensors.items()
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        p = self.parts
        for layer in range(2):
            x = torch.tanh(functional.linear(x, p[f"layers_{layer}_weight"], p[f"layers_{layer}_bias"]))
        advantages = functional.linear(x, p["head_weight"], p["head_bias"])
        value = functional.linear(x, p["value_weight"], p["value_bias"])
        return value + advantages - advantages.mean(-1, keepdim=True)


def _team(algorithm: str, norm: float, **fields: Any) -> Team:
    settings = {
        "gamma": 0.99,
        "batchSize": BATCH,
        # Fragments of 60 steps, one gradient step.
        "replayRatio": (BATCH + 0.5) / 60,
        "normaliseRewards": False,
        "learningRate": RATE,
        "learningRateAnneal": False,
        "adamEpsilon": 1e-3,
        "maxGradNorm": norm,
        "dueling": True,
    }
    return team(agent_class(size=4), algorithm=algorithm, settings=settings, reward="team", **fields)


def _chosen(networks: dict[str, Network], agents: dict[str, str], rows: dict[str, Any], drawn: Any) -> Tensor:
    """Values [agents, B] of what was drawn; `drawn` has a row for each agent."""
    values = []
    for i, agent in enumerate(agents):
        place = drawn[i]
        q = networks[agents[agent]](torch.tensor(rows["observations"][place, i]))
        taken = q.gather(1, torch.tensor(rows["actions"][place, i])[:, None])[:, 0]
        values.append(taken * torch.tensor(rows["alive"][place, i]))
    return torch.stack(values)


def _rows(built: Team, fragment: Fragment) -> dict[str, Any]:
    """The replay buffer's rows after one round: those of the round."""
    arrays = rows_of([fragment], built, columns_of(built, joint=False), state=False).arrays
    return {name: arrays[f"agent/{name}"] for name in ("observations", "actions", "alive")}


@pytest.mark.parametrize("norm", [0.0, 0.05])
@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
def test_a_step_is_adams_along_the_gradient_of_the_weighted_huber_loss(
    algorithm: str, norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = _team(algorithm, norm)
    learner, drawn = QLearner(built), Drawn(monkeypatch)
    networks = {name: Network(weights) for name, weights in learner.weights().items()}
    fragment = agents_fragment(*built.classes, length=20, envs=3, ends=0.1, deaths=0.05)
    results = learner.update([fragment], 1)
    joint = algorithm == "vdn"
    targets = _targets(built, networks, fragment, joint=joint)
    rows = np.broadcast_to(drawn.rows, (3, BATCH))
    chosen = _chosen(networks, dict(learner.agents), _rows(built, fragment), rows)
    mixed = chosen.sum(0, keepdim=True) if joint else chosen
    wanted = torch.tensor(targets[drawn.columns, drawn.rows], dtype=torch.float32)
    each = functional.huber_loss(mixed, wanted, reduction="none")
    loss = (each * torch.tensor(drawn.weights)).sum() / BATCH
    loss.backward()
    parameters = [list(network.parameters()) for network in networks.values()]
    for index, group in enumerate([[p for own in parameters for p in own]] if joint else parameters):
        before = float(torch.cat([p.grad.flatten() for p in group]).norm())
        assert results[learner.policies[index]].stats["gradient_norm"] == pytest.approx(before, rel=1e-4)
        if norm:
            nn.utils.clip_grad_norm_(group, norm)
        torch.optim.Adam(group, RATE, eps=1e-3).step()
    for name, weights in learner.weights().items():
        for tensor, array in weights.tensors.items():
            expected = networks[name].parts[tensor.removeprefix("policy.").replace(".", "_")]
            assert np.allclose(array, expected.detach().numpy(), atol=2e-6), (name, tensor)
    norms = [result.stats["gradient_norm"] for result in results.values()]
    assert len(set(norms)) == (1 if joint else 3)
    assert results[learner.policies[0]].stats["gradient_steps"] == 1


@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
def test_a_round_without_gradient_steps_has_no_gradient_norm(algorithm: str) -> None:
    settings = {"batchSize": 50, "replayRatio": 0.1}
    learner = QLearner(team(algorithm=algorithm, settings=settings, reward="team"))
    stats = learner.update([agents_fragment(length=20, envs=3, seed=1)], 1)["agent_0"].stats
    assert stats["gradient_steps"] == 0
    assert "gradient_norm" not in stats


def _targets(built: Team, networks: dict[str, Network], fragment: Any, *, joint: bool) -> np.ndarray:
    """Targets [columns, steps] at networks that are their own target networks."""
    fields, tensors = fragment.by_class["agent"], fragment.tensors
    terminated, truncated = tensors["terminated"], tensors["truncated"]
    length, envs = terminated.shape
    values = np.zeros((3, length, envs))
    cut = 0
    for t in range(length):
        for e in range(envs):
            for i, agent in enumerate(built.agents):
                if truncated[t, e]:
                    seen = fields["final_observations"][cut, i]
                elif t == length - 1:
                    seen = fields["last_observations"][e, i]
                else:
                    seen = fields["observations"][t + 1, e, i]
                goes_on = fields["alive"][t, e, i] and not fields["died"][t, e, i]
                with torch.no_grad():
                    best = networks[agent](torch.tensor(seen)).max().item()
                values[i, t, e] = 0.99 * best * (goes_on and not terminated[t, e])
            cut += truncated[t, e]
    reward = fields["rewards"].sum(-1)
    targets = reward + (values.sum(0, keepdims=True) if joint else values)
    return targets.reshape(len(targets), -1)


def test_the_mixer_of_qmix_is_trained_with_the_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    built = _team("qmix", 0.05)
    learner, drawn = QLearner(built), Drawn(monkeypatch)
    networks = {name: Network(weights) for name, weights in learner.weights().items()}
    state = learner.state_dict()["learned"]
    mixer = state["mixer"].clone().requires_grad_()
    fragment = agents_fragment(*built.classes, length=20, envs=3, ends=0.1)
    # Only rewards of the last step of an episode count, so that no target needs the mixer.
    fragment.tensors["terminated"][:] = True
    fragment.tensors["truncated"][:] = False
    fields = fragment.by_class["agent"]
    fields["died"][:] = fields["alive"][:] = True
    fields["final_observations"] = fields["final_observations"][:0]
    learner.update([fragment], 1)
    rows = _rows(built, fragment)
    chosen = _chosen(networks, dict(learner.agents), rows, np.broadcast_to(drawn.rows, (3, BATCH)))
    seen = torch.tensor(rows["observations"][drawn.rows[0]].reshape(BATCH, -1))
    mixed = mixer_of(built)(mixer, chosen, seen)
    wanted = torch.tensor(fields["rewards"].sum(-1).reshape(1, -1)[:, drawn.rows[0]])
    each = functional.huber_loss(mixed, wanted, reduction="none")
    ((each * torch.tensor(drawn.weights)).sum() / BATCH).backward()
    group = [mixer, *(p for network in networks.values() for p in network.parameters())]
    nn.utils.clip_grad_norm_(group, 0.05)
    torch.optim.Adam(group, RATE, eps=1e-3).step()
    assert not torch.equal(learner.state_dict()["learned"]["mixer"], state["mixer"])
    assert torch.allclose(learner.state_dict()["learned"]["mixer"], mixer.detach(), atol=2e-6)
    for name, weights in learner.weights().items():
        for tensor, array in weights.tensors.items():
            expected = networks[name].parts[tensor.removeprefix("policy.").replace(".", "_")]
            assert np.allclose(array, expected.detach().numpy(), atol=2e-6), (name, tensor)


def test_target_networks_follow_after_as_many_steps_as_the_setting_says() -> None:
    settings = {"batchSize": 32, "replayRatio": 32 / 60, "targetUpdateSteps": 3}
    learner = QLearner(team(algorithm="qmix", settings=settings, reward="team"))
    first = learner.state_dict()["learned"]
    for round in range(1, 7):
        fragment = agents_fragment(length=20, envs=3, seed=round)
        learner.update([fragment], round)
        now = learner.state_dict()["learned"]
        own = now["policies"]["agent"]["agent_1"]
        same = all(torch.equal(own["target"][name], own["parameters"][name]) for name in own["target"])
        assert same == (round % 3 == 0)
        assert torch.equal(now["mixer_target"], now["mixer"]) == same
        assert torch.equal(now["mixer_target"], first["mixer"]) == (round < 3)


def test_epsilon_falls_with_the_environment_steps() -> None:
    settings = {"epsilonInitial": 1.0, "epsilonFinal": 0.1, "epsilonSteps": 150}
    learner = QLearner(team(algorithm="iql", settings=settings))
    found = []
    for round in range(1, 5):
        found.append(learner.weights()["agent_0"].network["epsilon"])
        learner.update([agents_fragment(length=20, envs=3, seed=round)], round)
    assert np.allclose(found, [1.0, 0.64, 0.28, 0.1])


def test_a_falling_learning_rate_goes_by_the_rounds_that_the_run_has_now() -> None:
    settings = {"batchSize": 50, "learningRate": RATE, "learningRateAnneal": True}
    learner = QLearner(team(algorithm="vdn", settings=settings, reward="team", rounds=4))
    rates = []
    for round, rounds in ((1, 4), (3, 4), (5, 8)):
        learner.begin_round(round, rounds)
        fragments = [agents_fragment(length=20, envs=3, seed=round)]
        rates.append(learner.update(fragments, round)["agent_0"].stats["learning_rate"])
    assert rates == pytest.approx([RATE, RATE / 2, RATE / 2])


def test_gradient_steps_follow_the_ratio_over_rounds() -> None:
    learner = QLearner(team(algorithm="iql", settings={"batchSize": 50, "replayRatio": 1.25}))
    steps = [
        learner.update([agents_fragment(length=20, envs=3, seed=round)], round)["agent_0"].stats[
            "gradient_steps"
        ]
        for round in range(1, 5)
    ]
    assert steps == [1, 2, 1, 2]
