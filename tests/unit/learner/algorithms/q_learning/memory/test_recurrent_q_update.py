"""A gradient step on sequences against a recomputation step by step with torch.nn.GRUCell and autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from agents_support import agent_class
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.memory.model import RecurrentQModel
from nitro_learner.algorithms.q_learning.mixers import mixer_of
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from recurrent_q_support import lane, learner_of, networks_of, remembering, team_of

LENGTH, ENVS, SLOTS, COUNT = 7, 3, 2, 4
GAMMA, RATE = 0.9, 0.01
CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 2, size=4, masked=True))
AGENTS = [("adversary", 0), ("agent", 0), ("agent", 1)]
SETTINGS: dict[str, Any] = {
    "gamma": GAMMA,
    # Not a multiple of a sequence's steps: four sequences.
    "batchSize": COUNT * LENGTH + 3,
    # One gradient step.
    "replayRatio": COUNT * LENGTH / (SLOTS * ENVS * LENGTH),
    "normaliseRewards": False,
    "learningRate": RATE,
    "learningRateAnneal": False,
    "adamEpsilon": 1e-3,
    "maxGradNorm": 0.0,
    "dueling": True,
}


def uneven(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is drawn, as of rows that are drawn with different probabilities."""
    drawn: dict[str, Any] = {}
    original = ReplayBuffer.draw

    def draw(replay: ReplayBuffer, columns: Any, shares: Any) -> Any:
        rows, probabilities = original(replay, columns, shares)
        probabilities = probabilities * np.linspace(1, 3, shares.shape[1])
        weights = (replay.counts[np.broadcast_to(columns, shares.shape)] * probabilities) ** -0.4
        drawn.update(rows=rows, weights=torch.tensor(weights / weights.max(1, keepdims=True)))
        return rows, probabilities

    monkeypatch.setattr(ReplayBuffer, "draw", draw)
    return drawn


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_a_step_equals_a_recomputation_step_by_step(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built, drawn = team_of(*CLASSES, algorithm=algorithm, settings=SETTINGS), uneven(monkeypatch)
    learner, mix = QLearner(built), mixer_of(built)
    state, generator = learner.state_dict(), torch.Generator().manual_seed(1)
    learned = state["learned"]
    for policy in (one for own in learned["policies"].values() for one in own.values()):
        for tensor in policy["target"].values():  # target networks that are others
            tensor += 0.3 * torch.randn(tensor.shape, generator=generator)
    learned["mixer_target"] += 0.1
    learner.load_state_dict(state)
    online, target = networks_of(learner, "parameters"), networks_of(learner, "target")
    mixer, mixer_target = learned["mixer"].clone().requires_grad_(), learned["mixer_target"]
    fragments = [
        remembering(*CLASSES, slot=slot, length=LENGTH, envs=ENVS, deaths=0.15, returns=0.4, seed=3)
        for slot in range(SLOTS)
    ]
    learner.update(fragments, 1)
    begins = {}  # rows of the buffer at which sequences begin
    row = 0
    for fragment in fragments:
        begins |= {row + e: (fragment, e) for e in range(ENVS)}
        terminated, truncated = fragment.tensors["terminated"], fragment.tensors["truncated"]
        row += LENGTH * ENVS + (truncated & ~terminated).sum() + (~(terminated | truncated)[-1]).sum()

    def values_of(fragment: Any, env: int, which: list[int]) -> tuple[Tensor, Tensor, np.ndarray]:
        """Values, those of what follows, and who acted, of agents, [n, L]."""
        found = [lane(fragment, *AGENTS[i], env, online[policies[i]], target[policies[i]]) for i in which]
        acted = np.array([fragment.by_class[AGENTS[i][0]]["alive"][:, env, AGENTS[i][1]] for i in which])
        return torch.stack([torch.stack(one[0]) for one in found]), torch.tensor([f[1] for f in found]), acted

    def states(fragment: Any, env: int) -> tuple[Tensor, Tensor]:
        """The global states of steps and of what follows them: all observations, [L, S]."""
        cuts = [tuple(one) for one in np.argwhere(fragment.tensors["truncated"])]
        now, after = [], []
        for t in range(LENGTH):
            prefix, at = ("", (t + 1, env)) if t + 1 < LENGTH else ("last_", (env,))
            if (t, env) in cuts:
                prefix, at = "final_", (cuts.index((t, env)),)
            parts = [fragment.by_class[one.name] for one in CLASSES]
            now.append(np.concatenate([part["observations"][t, env].ravel() for part in parts]))
            after.append(np.concatenate([part[f"{prefix}observations"][at].ravel() for part in parts]))
        return torch.tensor(np.stack(now)), torch.tensor(np.stack(after))

    policies = list(learner.policies)
    joint = algorithm != "iql"
    losses, rated = [], {}
    for column, own in enumerate([[0, 1, 2]] if joint else [[0], [1], [2]]):
        terms, steps = [], 0
        for place, weight in zip(drawn["rows"][column].tolist(), drawn["weights"][column], strict=True):
            fragment, env = begins[place]
            chosen, following, acted = values_of(fragment, env, own)
            rewards = sum(fragment.by_class[n]["rewards"][:, env, i] for n, i in AGENTS)
            if algorithm == "qmix":
                now, after = states(fragment, env)
                mixed = mix(mixer, chosen, now)[0]
                follows = mix(mixer_target, following, after)[0].detach()
                # Nothing follows where no agent acts afterwards.
                ends = ~np.array([(following[:, t] != 0).any() for t in range(LENGTH)])
                follows = torch.where(torch.tensor(ends), 0.0, follows)
            else:
                mixed, follows = chosen.sum(0), following.sum(0)
            counts = torch.tensor(acted.any(0))
            errors = mixed - (torch.tensor(rewards) + GAMMA * follows)
            huber = functional.huber_loss(errors, torch.zeros(LENGTH), reduction="none")
            terms.append((huber * counts).sum() * weight)
            steps += int(counts.sum())
            size = errors.abs().detach()[counts]
            rated[column, place] = 0.9 * size.max() + 0.1 * size.mean()
        losses.append(torch.stack(terms).sum() / steps)
    assert steps < COUNT * LENGTH or algorithm != "iql"  # somebody was dead
    torch.stack(losses).sum().backward()
    trained = [*(p for one in online.values() for p in one.parameters()), mixer]
    torch.optim.Adam([p for p in trained if p.grad is not None], RATE, eps=1e-3).step()
    for policy, weights in learner.weights().items():
        for name, array in weights.tensors.items():
            expected = online[policy].p[name.removeprefix("policy.").replace(".", "_")]
            np.testing.assert_allclose(
                array, expected.detach(), rtol=0, atol=5e-6, err_msg=f"{policy} {name}"
            )
    after = learner.state_dict()
    torch.testing.assert_close(after["learned"]["mixer"], mixer.detach(), rtol=0, atol=5e-6)
    exponent, epsilon = 0.6, 1e-6
    for (column, place), error in rated.items():
        priority = after["replay"]["priorities"][column, place]
        assert priority == pytest.approx((error.item() + epsilon) ** exponent, rel=1e-4)


def test_masked_steps_change_nothing() -> None:
    """What dead agents saw, did and got, and what follows an end."""
    found = []
    for garbage in (0.0, 1e3):
        settings = SETTINGS | {"replayRatio": 4.0, "normaliseRewards": True}
        learner = learner_of(*CLASSES, algorithm="iql", settings=settings, reward="own")
        fragment = remembering(*CLASSES, length=LENGTH, envs=ENVS, deaths=0.3, seed=5)
        assert not all(one["alive"].all() for one in fragment.by_class.values())
        for one in fragment.by_class.values():
            dead = ~one["alive"]
            one["observations"][dead] += garbage
            one["rewards"][dead] += garbage
            one["actions"][dead] = 3 if garbage else 0
            one["last_observations"][fragment.tensors["terminated"][-1]] += garbage
        learner.update([fragment], 1)
        found.append(learner.weights())
    for name, weights in found[0].items():
        for tensor, array in weights.tensors.items():
            np.testing.assert_array_equal(array, found[1][name].tensors[tensor])


def test_a_batch_of_one_sequence_is_corrected_for_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the buffer's least likely sequence, because the batch has no other one."""
    settings = {**SETTINGS, "batchSize": LENGTH, "replayRatio": 6.0, "priorityBeta": 1.0}
    learner = learner_of(*CLASSES, algorithm="iql", settings=settings)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    original = RecurrentQModel.draw

    def draw(model: RecurrentQModel, replay: ReplayBuffer, shape: Any, columns: Any, rng: Any) -> Any:
        weights = replay.state_dict()["priorities"].astype(np.float64)
        least = [row[row > 0].min() for row in weights]
        places, found = original(model, replay, shape, columns, rng)
        columns, first = columns[:, 0], places[:, 0]
        expected = np.array(least)[columns] / weights[columns, first]
        # The loss is the mean over the steps in which the agent acted.
        seen.append((found.sum(1), expected))
        return places, found

    monkeypatch.setattr(RecurrentQModel, "draw", draw)
    for round in (1, 2):
        slots = [remembering(*CLASSES, slot=slot, length=LENGTH, envs=ENVS, seed=round) for slot in (0, 1)]
        learner.update(slots, round)
    got, expected = (np.concatenate(part) for part in zip(*seen, strict=True))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert expected.min() < 0.9
