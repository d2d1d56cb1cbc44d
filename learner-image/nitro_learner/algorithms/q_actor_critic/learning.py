"""SAC, TD3 and DDPG of one agent, from fragments as they arrive.

Each fragment goes into the replay buffer, and then come as many gradient steps as `updatesPerStep` says,
while the actors sample on with weights that may be some versions old.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_api.algorithms.q_actor_critic import QActorCriticHyperparameters
from nitro_learner.algorithms.agents.policy_network import description, input_size
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult, check_network
from nitro_learner.algorithms.q_actor_critic.networks import Networks
from nitro_learner.algorithms.q_actor_critic.surrogate import ValueSurrogate
from nitro_learner.algorithms.q_actor_critic.updates import Batch, fresh_actor_critic, policy_outputs
from nitro_learner.algorithms.replay.buffer import Debt, ReplayBuffer
from nitro_learner.algorithms.replay.transitions import columns_of, rows_of
from nitro_learner.algorithms.updates import stream
from nitro_learner.data.batch import Fragment, check_shapes, on_device, vectors

_POLICY, _CRITICS, _DRAWS = range(3)
"""Uses of random numbers: first parameters of the policy and of the critics, and what gradient steps draw."""

_TOGETHER = 16
"""Gradient steps whose transitions are gathered at once."""


class QActorCritic:
    """SAC, TD3 or DDPG, as the settings say. See `OffPolicyLearner` for the interface."""

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: the only agent of its environment.
            device: a torch device.

        Raises:
            TypeError: the settings are not SAC's, TD3's or DDPG's.
        """
        settings = team.settings
        if not isinstance(settings, QActorCriticHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of SAC, TD3 or DDPG")
        (self._class,) = team.classes
        self._team, self._settings, self._device = team, settings, device
        self.max_staleness = settings.max_staleness
        self._actions = int(self._class.action["size"])
        self._columns = columns_of(team, joint=False)
        self._replay = ReplayBuffer(settings.buffer_size, 1, alpha=0.0, epsilon=1.0)
        inputs, network = input_size(team, self._class), team.network
        hidden, activation = network.hidden_sizes, network.activation
        shapes = (
            Networks(inputs, hidden, policy_outputs(settings, self._actions), activation),
            Networks(inputs + self._actions, hidden, 1, activation, layer_norm=settings.layer_norm),
        )
        generators = self._generator(_POLICY), self._generator(_CRITICS)
        self._learned = fresh_actor_critic(settings, shapes, self._actions, generators, device)
        self._env_steps = self._steps = 0
        self._debt = Debt()
        self._begin()

    @property
    def policies(self) -> tuple[str, ...]:
        """See `Learner`."""
        return (DEFAULT_POLICY,)

    @property
    def agents(self) -> Mapping[str, str]:
        """See `Learner`."""
        return SINGLE_AGENT

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        policy = self._learned.policy
        tensors = {
            f"policy.{name}": value[0].cpu().numpy().copy()
            for name, value in policy.shape.layout.views(policy.parameters).items()
        }
        network = self._description() | {"uniform": self._env_steps < self._settings.warm_up_steps}
        return {DEFAULT_POLICY: PolicyWeights(network, tensors)}

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Learner`. Nothing here changes with the rounds."""

    def take(self, fragments: list[Fragment]) -> None:
        """See `OffPolicyLearner`. The steps before a fragment tell its random draws from others'."""
        for fragment in fragments:
            rows = rows_of([fragment], self._team, self._columns, state=False)
            self._replay.append(rows.arrays, rows.drawable)
            self._arrived.append(fragment)
            before, warm_up = self._env_steps, self._settings.warm_up_steps
            self._env_steps += fragment.tensors["terminated"].size
            counted = max(0, self._env_steps - max(before, warm_up))
            due = self._debt.due(counted, self._settings.updates_per_step, 1)
            for batch in self._batches(due, np.random.default_rng([self._team.seed, _DRAWS, before])):
                self._steps += 1
                self._learned.step(batch, self._steps)
            self._gradient_steps += due

    def replay(self) -> bool:
        """See `OffPolicyLearner`: all gradient steps that are due were taken as the fragments arrived."""
        return False

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        """See `OffPolicyLearner`."""
        if not self._learned.finite():
            raise FloatingPointError(
                f"round {round}: the weights of {self._team.algorithm} became infinite or NaN; "
                "lower hyperparameters.learningRate"
            )
        self._replay.seal()
        stats = self._learned.take_stats() | {
            "learning_rate": self._settings.learning_rate,
            "gradient_steps": float(self._gradient_steps),
        }
        result = UpdateResult(stats, self._surrogate())
        self._begin()
        return {DEFAULT_POLICY: result}

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`."""
        return {
            "network": self._description(),
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
        check_network(state["network"], self._description())
        self._learned.load_state_dict(state["learned"])
        self._begin()

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Do nothing: the replay buffer has whole transitions."""

    def _begin(self) -> None:
        """Begin a round."""
        self._arrived: list[Fragment] = []
        self._gradient_steps = 0

    def _batches(self, count: int, rng: np.random.Generator) -> Iterator[Batch]:
        """The transitions of `count` gradient steps, drawn uniformly."""
        drawable = np.flatnonzero(self._replay.drawable[:, 0])
        arrays, size = self._replay.arrays, self._settings.batch_size
        name, gamma = self._class.name, np.float32(self._settings.gamma)
        for begin in range(0, count, _TOGETHER):
            steps = min(_TOGETHER, count - begin)
            places = drawable[rng.integers(len(drawable), size=(steps, size))]
            seen = arrays[f"{name}/observations"]
            drawn = (
                seen[places, 0],
                arrays[f"{name}/actions"][places, 0],
                arrays["rewards"][places, 0],
                gamma * ~arrays["ends"][places, 0],
                seen[self._replay.following(places), 0],
                rng.standard_normal((steps, self._learned.draws, size, self._actions), np.float32),
            )
            parts = [on_device(array.astype(np.float32, copy=False), self._device) for array in drawn]
            for step in range(steps):
                yield Batch(*(part[step] for part in parts))

    def _surrogate(self) -> ValueSurrogate:
        """The objective of the round's fragments."""
        check_shapes(self._arrived)
        seen = np.stack([fragment.by_class[self._class.name]["observations"] for fragment in self._arrived])
        fragments, length, envs = seen.shape[:3]
        rows = torch.arange(fragments * length * envs).view(fragments, length, envs)
        return ValueSurrogate(
            self._learned,
            self._learned.policy.parameters.clone().requires_grad_(),
            on_device(vectors(seen.reshape(rows.numel(), *seen.shape[4:])), self._device),
            rows.transpose(1, 2).reshape(-1, length),
        )

    def _description(self) -> dict[str, Any]:
        """The weights container's `network`, without what changes over a run."""
        return description(self._team, self._class, **self._learned.head())

    def _generator(self, purpose: int) -> torch.Generator:
        return torch.Generator().manual_seed(stream(self._team.seed, purpose))
