"""What tests of Q-learners with a memory share: learners, made-up rounds, and values step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from agents_support import agents_fragment, team
from nitro_actor.protocol.agents import AgentClass
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.gradient import MeanNorm
from nitro_learner.algorithms.q_learning import learning
from nitro_learner.algorithms.q_learning.learned import Learned
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.model import QModel
from nitro_learner.algorithms.q_learning.training import QTrainer
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.algorithms.replay.transitions import Rows, Shape
from nitro_learner.data.batch import Fragment

SIZE = 5
"""H, which no length of a fragment here divides."""


def team_of(*classes: AgentClass, **fields: Any) -> Team:
    """A team with a memory; see `team` for the arguments."""
    made = team(*classes, **({"hidden": (6,), "reward": "team"} | fields))
    made.network.recurrent = Recurrent(hidden_size=SIZE)
    return made


def learner_of(*classes: AgentClass, **fields: Any) -> QLearner:
    """A learner with a memory; see `team` for the arguments."""
    return QLearner(team_of(*classes, **fields))


class Watched:
    """The newest update of any Q-learner.

    Attributes:
        trainer: of its gradient steps.
        model: of its policies.
        replay: what it drew from.
        before: the parameters of each class before it.
        rows: of its round.
    """

    trainer: QTrainer
    model: QModel
    replay: ReplayBuffer
    before: dict[str, Tensor]
    rows: Rows

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        results_of = learning.results_of

        def trainer(
            model: QModel,
            learned: Learned,
            groups: Groups,
            replay: ReplayBuffer,
            shape: Shape,
            norms: Mapping[str, MeanNorm] | None,
        ) -> Any:
            self.model, self.replay = model, replay
            self.before = {name: stack.parameters.clone() for name, stack in learned.stacks.items()}
            self.trainer = QTrainer(model, learned, groups, replay, shape, norms)
            return self.trainer

        def results(trainer: QTrainer, rows: Rows, stats: Any) -> Any:
            self.rows = rows
            return results_of(trainer, rows, stats)

        monkeypatch.setattr(learning, "QTrainer", trainer)
        monkeypatch.setattr(learning, "results_of", results)


def remembering(*classes: AgentClass, seed: int = 0, **fields: Any) -> Fragment:
    """A made-up fragment whose agents remember something; see `agents_fragment` for the arguments."""
    fragment = agents_fragment(*classes, seed=seed, **fields)
    rng = np.random.default_rng([seed, 7])
    for arrays in fragment.by_class.values():
        shape = (*arrays["alive"].shape[1:], SIZE)
        arrays["memory"] = rng.uniform(-1, 1, shape).astype(np.float32)  # type: ignore[index]
    return fragment


class Naive(nn.Module):
    """A hidden layer, torch's own cell and dueling heads, for one observation at a time."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__()
        self.p = nn.ParameterDict(
            {
                name.removeprefix("policy.").replace(".", "_"): nn.Parameter(torch.as_tensor(value).clone())
                for name, value in parameters.items()
            }
        )
        self.cell = nn.GRUCell(self.p["layers_0_bias"].numel(), SIZE)
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.cell, part, self.p[f"gru_{part}"])

    def forward(self, x: np.ndarray, h: Tensor) -> tuple[Tensor, Tensor]:
        """The values [N] and the memory after the observation."""
        p = self.p
        features = torch.tanh(functional.linear(torch.tensor(x), p["layers_0_weight"], p["layers_0_bias"]))
        h = self.cell(features[None], h[None])[0]
        advantages = functional.linear(h, p["head_weight"], p["head_bias"])
        value = functional.linear(h, p["value_weight"], p["value_bias"])
        return value + advantages - advantages.mean(), h


def networks_of(learner: QLearner, part: str) -> dict[str, Naive]:
    """Networks of all policies; `part` is `parameters` or `target`."""
    saved = learner.state_dict()["learned"]["policies"]
    return {name: Naive(one[part]) for own in saved.values() for name, one in own.items()}


def lane(
    fragment: Fragment, name: str, agent: int, env: int, online: Naive, target: Naive
) -> tuple[list[Tensor], list[float]]:
    """An agent's values of its actions in one environment, with a graph, and the double-Q values of what
    follows each step, undiscounted; 0 where it does not act, in this step or in the next one."""
    fields, terminated = fragment.by_class[name], fragment.tensors["terminated"]
    truncated = fragment.tensors["truncated"] & ~terminated
    length = len(terminated)
    cuts = [tuple(row) for row in np.argwhere(truncated)]
    h = torch.tensor(fields["memory"][env, agent])
    k = h.clone()
    chosen, following = [], []
    for t in range(length):
        alive, died = fields["alive"][t, env, agent], fields["died"][t, env, agent]
        q, h = online(fields["observations"][t, env, agent], h)
        with torch.no_grad():
            _, k = target(fields["observations"][t, env, agent], k)
        chosen.append(q[fields["actions"][t, env, agent]] if alive else torch.zeros(()))
        prefix, at = ("", (t + 1, env)) if t + 1 < length else ("last_", (env,))
        if truncated[t, env]:
            prefix, at = "final_", (cuts.index((t, env)),)
        goes_on = bool(alive and not died and not terminated[t, env])
        acts = goes_on if prefix else bool(fields["alive"][t + 1, env, agent] and not terminated[t, env])
        if not goes_on:
            h, k = torch.zeros(SIZE), torch.zeros(SIZE)
        seen = fields[f"{prefix}observations"][at][agent]
        with torch.no_grad():
            judged, rated = online(seen, h)[0], target(seen, k)[0]
        if "available" in fields:
            allowed = torch.tensor(fields[f"{prefix}available"][at][agent])
            judged = torch.where(allowed, judged, -1e9)
        following.append(rated[judged.argmax()].item() if acts else 0.0)
        if truncated[t, env]:
            h, k = torch.zeros(SIZE), torch.zeros(SIZE)
    return chosen, following
