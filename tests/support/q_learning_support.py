"""What the tests of Q-learners share: Q-networks in NumPy, and matrix games that are played by them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.surrogate import TdSurrogate
from nitro_learner.boosting.hvp import Hessian
from nitro_learner.boosting.surrogate import Function
from nitro_learner.data.batch import Fragment

Published = Mapping[str, PolicyWeights]


def values(weights: PolicyWeights, x: np.ndarray) -> np.ndarray:
    """Values [..., N] of observations [..., D], from a policy's published tensors."""
    tensors = {name.removeprefix("policy."): array for name, array in weights.tensors.items()}
    hidden = len(weights.network["hidden"])
    for layer in range(hidden):
        x = np.tanh(x @ tensors[f"layers.{layer}.weight"].T + tensors[f"layers.{layer}.bias"])
    advantages = x @ tensors["head.weight"].T + tensors["head.bias"]
    if not weights.network["dueling"]:
        return advantages
    value = x @ tensors["value.weight"].T + tensors["value.bias"]
    return value + advantages - advantages.mean(-1, keepdims=True)


class MatrixGame:
    """Two agents that see which of some states they are in, and get one reward for their actions.

    Attributes:
        agents: the class of both.
    """

    def __init__(self, payoffs: Sequence[np.ndarray], *, first: bool = False) -> None:
        """
        Args:
            payoffs: of a state, by the agents' actions, [N, N].
            first: whether the first agent's action chooses the state, for a reward of 0 (two steps). Else
                there is one state and one step.
        """
        self.payoffs, self.first = payoffs, first
        self.states = len(payoffs) + first
        actions = len(payoffs[0])
        self.agents = AgentClass(
            "agent",
            ("agent_0", "agent_1"),
            {"shape": [self.states], "dtype": "float32", "frame": [self.states], "stack": 1},
            {"kind": "discrete", "n": actions},
            True,
        )

    def play(self, learner: QLearner, episodes: int, seed: int) -> Fragment:
        """A fragment of `episodes` environments that play one episode each, by the published weights."""
        rng = np.random.default_rng(seed)
        published = learner.weights()
        state = np.zeros(episodes, np.int64)
        observations, actions, rewards = [], [], []
        for step in range(1 + self.first):
            seen = np.repeat(np.eye(self.states, dtype=np.float32)[state][:, None], 2, axis=1)
            taken = np.stack(
                [
                    self._act(published[learner.agents[agent]], seen[:, i], rng)
                    for i, agent in enumerate(self.agents.agents)
                ],
                axis=1,
            )
            last = step == self.first
            payoff = np.stack(self.payoffs)[state - self.first, taken[:, 0], taken[:, 1]]
            observations.append(seen)
            actions.append(taken)
            rewards.append(np.repeat(payoff[:, None] if last else np.zeros((episodes, 1)), 2, axis=1))
            # Further actions of a state's choice choose the last state.
            state = 1 + np.minimum(taken[:, 0], len(self.payoffs) - 1)
        shape = (len(rewards), episodes)
        terminated = np.zeros(shape, bool)
        terminated[-1] = True
        died = np.repeat(terminated[..., None], 2, axis=2)
        fields = {
            "observations": np.stack(observations),
            "actions": np.stack(actions),
            "rewards": np.stack(rewards).astype(np.float32),
            "alive": np.ones_like(died),
            "died": died,
            "last_observations": np.zeros((episodes, 2, self.states), np.float32),
            "final_observations": np.zeros((0, 2, self.states), np.float32),
        }
        tensors = {"terminated": terminated, "truncated": np.zeros(shape, bool)}
        return Fragment({"slot": 0, "resumed": False}, tensors, {"agent": fields})

    def reward(self, learner: QLearner) -> float:
        """What the best actions get."""
        published, state = learner.weights(), 0
        for step in range(1 + self.first):
            seen = np.eye(self.states, dtype=np.float32)[state]
            taken = [
                int(values(published[learner.agents[agent]], seen).argmax()) for agent in self.agents.agents
            ]
            if step < self.first:
                state = 1 + min(taken[0], len(self.payoffs) - 1)
        return float(self.payoffs[state - self.first][taken[0], taken[1]])

    def _act(self, policy: PolicyWeights, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        best = values(policy, seen).argmax(-1)
        explores = rng.random(len(seen)) < policy.network["epsilon"]
        return np.where(explores, rng.integers(0, self.agents.action["n"], len(seen)), best)


def targets_one_by_one(
    fragments: Sequence[Fragment],
    team: Team,
    agents: Mapping[str, str],
    online: Published,
    target: Published,
    *,
    gamma: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Each agent's reward and the value of what follows each step, by loops.

    Returns:
        rewards, and gamma times double Q-learning's value of what follows, both [agents, steps], steps by
        fragment, then t, then environment. An agent that does not act afterwards has no value.
    """
    rewards: list[list[float]] = []
    following: list[list[float]] = []
    for fragment in fragments:
        terminated, truncated = fragment.tensors["terminated"], fragment.tensors["truncated"]
        length, envs = terminated.shape
        cut = 0
        for t in range(length):
            for e in range(envs):
                ends = truncated[t, e] and not terminated[t, e]
                row_rewards, row_following = [], []
                for one in team.classes:
                    fields = fragment.by_class[one.name]
                    for i, agent in enumerate(one.agents):
                        if agent not in team.agents:
                            continue
                        prefix, place = ("last_", e) if t == length - 1 else ("", (t + 1, e))
                        if ends:
                            prefix, place = "final_", cut
                        seen = fields[f"{prefix}observations"][place][i]
                        ids = np.eye(len(one.agents), dtype=np.float32)[i] if team.agent_ids else seen[:0]
                        x = np.concatenate([seen, ids])
                        policy = agents[agent]
                        judged, rated = values(online[policy], x), values(target[policy], x)
                        if "available" in fields:
                            judged = np.where(fields[f"{prefix}available"][place][i], judged, -1e9)
                        if prefix:
                            acts = fields["alive"][t, e, i] and not fields["died"][t, e, i]
                        else:
                            acts = fields["alive"][t + 1, e, i]
                        counts = acts and not terminated[t, e]
                        row_following.append(gamma * rated[judged.argmax()] if counts else 0.0)
                        row_rewards.append(fields["rewards"][t, e, i])
                rewards.append(row_rewards)
                following.append(row_following)
                cut += ends
    return np.array(rewards).T, np.array(following).T


def doubled(surrogate: TdSurrogate) -> TdSurrogate:
    """The same objective in float64, with steps so small that they cross no kink of Huber, ReLU or abs."""
    played = [
        replace(_in_float64(one), steps=replace(_in_float64(one.steps), memory=_in_float64(one.steps.memory)))
        for one in surrogate.played
    ]
    return replace(_in_float64(surrogate), played=played)


def hessian_products(function: Function) -> tuple[Tensor, Tensor]:
    """The Hessian's product with a random vector, f64 [n]: the detector's, and from differences of
    gradients."""
    sizes = [p.numel() for p in function.parameters]

    def gradient() -> Tensor:
        parts = [torch.autograd.grad(term(), list(function.parameters)) for term in function.terms]
        return torch.stack([torch.cat([g.flatten() for g in part]) for part in parts]).sum(0)

    vector = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with Hessian(function) as operator:
        found = operator(vector)
    step, ends = 1e-7, []
    for sign in (1, -2):  # the second step goes back and beyond
        with torch.no_grad():
            for p, v in zip(function.parameters, torch.split(vector, sizes), strict=True):
                p += sign * step * v.view_as(p)
        ends.append(gradient())
    return found, (ends[0] - ends[1]) / (2 * step)


def _in_float64(one: Any) -> Any:
    """A dataclass, or None, with all its floating-point tensors in float64; its leaves stay leaves."""
    if one is None:
        return None
    changed = {}
    for field in fields(one):
        value = getattr(one, field.name)
        if isinstance(value, Tensor) and value.is_floating_point():
            changed[field.name] = value.detach().double().requires_grad_(value.requires_grad)
    return replace(one, **changed)
