"""Mixers: functions from the values of a team's agents to the values that the loss compares with targets."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from nitro_api.algorithms.q_learning import QmixHyperparameters
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.networks.stacked import StackedPerceptron


class Mixer(Protocol):
    """A function of the agents' values, with parameters in a flat vector.

    Attributes:
        joint: whether all agents have one value together. Then they need one reward.
        sees_state: whether it takes the global state.
        size: m, its parameters.
    """

    joint: bool
    sees_state: bool
    size: int

    def initial(self, generator: torch.Generator) -> Tensor:
        """Draw the parameters, f32 [m]."""
        ...

    def __call__(self, parameters: Tensor, values: Tensor, state: Tensor | None) -> Tensor:
        """Mix, with a graph that can be differentiated twice.

        Args:
            parameters: [m].
            values: of n agents' actions, [n, B]; 0 of an agent that does not act.
            state: f32 [B, S], where it is seen.

        Returns:
            [n, B], or of a joint mixer [1, B].
        """
        ...


class Independent:
    """Each agent's value stands for itself: IQL (Tan 1993)."""

    joint = False
    sees_state = False
    size = 0

    def initial(self, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        """Return no parameters."""
        return torch.zeros(0)

    def __call__(self, parameters: Tensor, values: Tensor, state: Tensor | None) -> Tensor:  # noqa: ARG002
        """Return the values as they are."""
        return values


class Sum:
    """Q_tot = sum_i Q_i: VDN (Sunehag et al. 2018, equation 3)."""

    joint = True
    sees_state = False
    size = 0

    def initial(self, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        """Return no parameters."""
        return torch.zeros(0)

    def __call__(self, parameters: Tensor, values: Tensor, state: Tensor | None) -> Tensor:  # noqa: ARG002
        """Return the sum of the values."""
        return values.sum(0, keepdim=True)


class Monotonic:
    """Q_tot = w2(s) . elu(W1(s) Q + b1(s)) + b2(s) with W1, w2 >= 0: QMIX (Rashid et al. 2018, section 4).

    Hypernetworks make the weights from the state: two layers each for W1 and w2, whose outputs' absolute
    values are taken, one for b1, and two for b2. So Q_tot rises with every agent's value, and each agent's
    best action is its part of the team's.
    """

    joint = True
    sees_state = True

    def __init__(self, agents: int, state: int, *, units: int, hypernetwork_units: int) -> None:
        """
        Args:
            agents: n.
            state: S.
            units: of the hidden layer.
            hypernetwork_units: hidden units of the hypernetworks of W1 and w2.
        """
        self._agents, self._units = agents, units
        self._parts = [
            StackedPerceptron(state, [hypernetwork_units], {"weights": units * agents}, "relu"),
            StackedPerceptron(state, [], {"bias": units}, "relu"),
            StackedPerceptron(state, [hypernetwork_units], {"weights": units}, "relu"),
            StackedPerceptron(state, [units], {"bias": 1}, "relu"),
        ]
        self.size = sum(part.size for part in self._parts)

    def initial(self, generator: torch.Generator) -> Tensor:
        """Draw the parameters as nn.Linear starts, f32 [m]."""
        return torch.cat([part.initial(generator, orthogonal=False, head_gains={}) for part in self._parts])

    def __call__(self, parameters: Tensor, values: Tensor, state: Tensor | None) -> Tensor:
        """Mix; see `Mixer`.

        Raises:
            ValueError: the state is missing, or the number of agents differs from the mixer's.
        """
        if state is None or len(values) != self._agents:
            raise ValueError(f"a mixer of {self._agents} agents and their state got {len(values)} values")
        split = torch.split(parameters, [part.size for part in self._parts])
        w1, b1, w2, b2 = (
            part(own[None], state[None])[0] for part, own in zip(self._parts, split, strict=True)
        )
        first = w1.abs().view(len(state), self._units, self._agents)
        hidden = functional.elu((first * values.t()[:, None, :]).sum(-1) + b1)
        return ((w2.abs() * hidden).sum(-1) + b2[:, 0])[None]


def mixer_of(team: Team) -> Mixer:
    """The mixer of a team's algorithm: iql, vdn or qmix."""
    if team.algorithm != "qmix":
        return Sum() if team.algorithm == "vdn" else Independent()
    assert isinstance(team.settings, QmixHyperparameters), "the record of qmix has QMIX's settings"
    return Monotonic(
        len(team.agents),
        team.global_state_size,
        units=team.settings.mixer_units,
        hypernetwork_units=team.settings.hypernetwork_units,
    )
