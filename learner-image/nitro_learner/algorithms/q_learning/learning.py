"""Q-learning from replayed fragments; IQL, VDN and QMIX for the agents of a team.

The three differ in the mixer: each agent's value alone (IQL), the sum of the values (VDN), or a monotonic
network of them (QMIX). A round's transitions go into the replay buffer, and then come as many gradient steps
as `replayRatio` says. An agent's transitions stay with the agent, whichever policy it plays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.adam import AdamState
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.policy_network import description, input_size, inputs
from nitro_learner.algorithms.agents.team import Team, TeamMisfit
from nitro_learner.algorithms.base import UpdateResult, check_network
from nitro_learner.algorithms.gradient import MeanNorm
from nitro_learner.algorithms.q_learning.learned import Learned, PolicyStack
from nitro_learner.algorithms.q_learning.memory.model import RecurrentQModel
from nitro_learner.algorithms.q_learning.mixers import mixer_of
from nitro_learner.algorithms.q_learning.model import FeedForwardQModel
from nitro_learner.algorithms.q_learning.surrogate import results_of
from nitro_learner.algorithms.q_learning.training import QTrainer
from nitro_learner.algorithms.replay.buffer import Debt, ReplayBuffer
from nitro_learner.algorithms.replay.transitions import Rows, Shape, columns_of, positions_of, rows_of
from nitro_learner.algorithms.updates import annealed, stream
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import UNAVAILABLE

_INITIAL, _MIXER, _DRAWS = range(3)
"""Uses of random numbers: first parameters, the mixer's parameters, and the rows that are drawn."""


class QLearning:
    """What all Q-learners have, whatever feeds them and whatever the networks.

    `update` of a round, and `take` of what arrives, are the subclasses'.
    """

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: its algorithm is a Q-learner's.
            device: a torch device.

        Raises:
            TypeError: the settings are not a Q-learner's.
            TeamMisfit: the actions of a class are not discrete.
        """
        self._model = (RecurrentQModel if team.network.recurrent else FeedForwardQModel)(team)
        self._team, self._settings, self._device = team, self._model.settings, device
        positions = positions_of(team)
        self._classes = {
            agent_class.name: agent_class for agent_class in team.classes if positions[agent_class.name]
        }
        self._mixer = mixer_of(team)
        self._columns = columns_of(team, joint=self._mixer.joint)
        self._replay = ReplayBuffer(
            self._settings.buffer_size,
            len(self._columns),
            alpha=self._settings.priority_alpha,
            epsilon=self._settings.priority_epsilon,
        )
        self._groups = Groups.initial(team)
        self._learned = Learned(
            {name: self._fresh(agent_class) for name, agent_class in self._classes.items()},
            self._mixer,
            self._mixer.initial(self._generator(_MIXER, self._first)).to(device),
            self._settings.adam_epsilon,
        )
        self._env_steps = 0
        self._debt = Debt()
        self._steps = 0
        """Gradient steps so far."""

    @property
    def policies(self) -> tuple[str, ...]:
        """See `Learner`."""
        return tuple(map(self._team.published, self._groups.policies))

    @property
    def agents(self) -> Mapping[str, str]:
        """See `Learner`."""
        return {agent: self._team.published(policy) for agent, policy in self._groups.agents.items()}

    @property
    def epsilon(self) -> float:
        """Probability of a random action in the next round."""
        s = self._settings
        done = min(1.0, self._env_steps / s.epsilon_steps)
        return s.epsilon_initial + done * (s.epsilon_final - s.epsilon_initial)

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        published = {}
        for policy in self._groups.policies:
            agent_class = self._groups.class_of(policy)
            stack = self._learned.stacks[agent_class.name]
            row = stack.names.index(policy)
            tensors = {
                name: value[row].detach().cpu().numpy().copy()
                for name, value in stack.network.named(stack.parameters).items()
            }
            network = self._description(agent_class) | {"epsilon": self.epsilon}
            published[self._team.published(policy)] = PolicyWeights(network, tensors)
        return published

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`."""
        return {
            "networks": self._descriptions(),
            "groups": self._groups.to_dict(),
            "learned": self._learned.state_dict(),
            "replay": self._replay.state_dict(),
            "env_steps": self._env_steps,
            "owed": self._debt.owed,
            "steps": self._steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self.adopt(state)
        self._replay.load_state_dict(state["replay"])
        self._env_steps, self._steps = int(state["env_steps"]), int(state["steps"])
        self._debt.owed = float(state["owed"])

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        check_network(state["networks"], self._descriptions())
        self._groups = Groups(self._team, state["groups"])
        fresh = {name: self._fresh(agent_class) for name, agent_class in self._classes.items()}
        self._learned.load_state_dict(state["learned"], fresh)

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Do nothing: the replay buffer has whole transitions, and a fragment begins with its memories."""

    def _absorb(
        self,
        fragments: Sequence[Fragment],
        rate: float,
        key: int,
        norms: Mapping[str, MeanNorm] | None = None,
    ) -> tuple[QTrainer, Rows, int]:
        """Take fragments into the replay buffer, and take the gradient steps that are due for them.

        Args:
            rate: Adam's step size.
            key: tells these random draws from the run's others.
            norms: take the gradients' norms; see `QTrainer`.

        Returns:
            The trainer, the fragments' rows, and the number of gradient steps.
        """
        rows = self._rows(fragments)
        self._replay.append(rows.arrays, rows.drawable)
        self._check_acted()
        sampled = sum(int(fragment.tensors["terminated"].size) for fragment in fragments)
        self._env_steps += sampled
        trainer = self._trainer(rows.shape, norms)
        steps = self._debt.due(sampled, self._settings.replay_ratio, trainer.transitions)
        rng = np.random.default_rng([self._team.seed, _DRAWS, key, self._first])
        for _ in range(steps):
            self._steps += 1
            trainer.step(rng, self._steps, rate)
        return trainer, rows, steps

    def _rows(self, fragments: Sequence[Fragment]) -> Rows:
        """A round's rows."""
        rows = rows_of(fragments, self._team, self._columns, state=self._mixer.sees_state)
        return self._model.prepared(rows, fragments)

    def _trainer(self, shape: Shape, norms: Mapping[str, MeanNorm] | None = None) -> QTrainer:
        """Gradient steps of fragments that have this shape."""
        return QTrainer(self._model, self._learned, self._groups, self._replay, shape, norms)

    def _check_acted(self) -> None:
        for agents, count in zip(self._columns, self._replay.counts, strict=True):
            if count == 0:
                raise TeamMisfit(
                    f"{', '.join(agents)} did not act in any step that the replay buffer holds, so "
                    f"{self._team.algorithm} has nothing to learn from. Correct the environment, or leave "
                    "the agent out of it"
                )

    def _check_finite(self, round: int) -> None:
        if not self._learned.finite():
            raise FloatingPointError(
                f"round {round}: the weights of {self._team.algorithm} became infinite or NaN; "
                "lower hyperparameters.learningRate or set hyperparameters.maxGradNorm"
            )

    def _fresh(self, agent_class: AgentClass) -> PolicyStack:
        """The policies of a class as a run begins with them."""
        action, s = agent_class.action, self._settings
        if action["kind"] != "discrete":
            theirs = "continuous" if action["kind"] == "continuous" else "several whole numbers"
            raise TeamMisfit(
                f"spec.algorithm.name: {self._team.algorithm} needs discrete actions, but those of "
                f"{', '.join(agent_class.agents)} are {theirs}. Take ippo or mappo"
            )
        size = input_size(self._team, agent_class)
        network = self._model.network(size, action["n"])
        rows = {}
        for policy in self._groups.policies:
            if policy in agent_class.agents:
                generator = self._generator(_INITIAL, self._team.index(policy))
                row = network.initial(generator).to(self._device)
                rows[policy] = (row, row, AdamState.fresh(network.size, self._device))
        return PolicyStack(rows, network, s.adam_epsilon)

    def _description(self, agent_class: AgentClass) -> dict[str, Any]:
        """The weights container's `network` of a class, without epsilon."""
        return description(self._team, agent_class, head="q", dueling=self._settings.dueling)

    def _descriptions(self) -> dict[str, Any]:
        return {name: self._description(agent_class) for name, agent_class in self._classes.items()}

    @property
    def _first(self) -> int:
        """The index of the team's first agent, which keys the team's random numbers."""
        return self._team.index(self._team.agents[0])

    def _generator(self, purpose: int, index: int) -> torch.Generator:
        return torch.Generator().manual_seed(stream(stream(self._team.seed, purpose), index))


class QLearner(QLearning):
    """IQL, VDN and QMIX. See `SharingLearner` for the interface."""

    def begin_round(self, round: int, rounds: int) -> None:  # noqa: ARG002
        """See `Learner`."""
        self._team = replace(self._team, rounds=rounds)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyLearner`.

        Raises:
            TeamMisfit: an agent has never acted, or a joint value's agents have different rewards.
        """
        rate = annealed(self._settings, round, self._team.rounds)
        trainer, rows, steps = self._absorb(fragments, rate, round)
        self._check_finite(round)
        stats = {"learning_rate": rate, "epsilon": self.epsilon, "gradient_steps": float(steps)}
        return results_of(trainer, rows, stats)

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        """See `SharingLearner`."""
        before, after = self._groups, Groups(self._team, groups)
        for name, stack in self._learned.stacks.items():
            sources = {
                policy: policy if policy in before.policies else before.agents[policy]
                for policy in after.policies
                if after.class_of(policy).name == name
            }
            self._learned.stacks[name] = stack.regrouped(sources)
        self._groups = after

    @torch.no_grad()
    def distances(
        self, agents: Sequence[str], observations: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        """See `SharingLearner`."""
        agent_class = self._groups.class_of(self._groups.agents[agents[0]])
        stack = self._learned.stacks[agent_class.name]
        logs = []
        for agent in agents:
            row = stack.names.index(self._groups.agents[agent])
            seen = torch.from_numpy(inputs(self._team, agent_class, agent, observations)).to(self._device)
            values = stack.network.first_values(stack.parameters[row : row + 1], seen[None])[0].double()
            mask = torch.ones_like(values, dtype=torch.bool)
            if available is not None:
                mask = torch.from_numpy(available).to(self._device)
            spread = values[mask].std(correction=0).clamp(min=1e-12)
            logs.append(functional.log_softmax(torch.where(mask, values / spread, UNAVAILABLE), dim=1))
        return np.array([[(p.exp() * (p - q)).sum(1).mean().item() for q in logs] for p in logs])
