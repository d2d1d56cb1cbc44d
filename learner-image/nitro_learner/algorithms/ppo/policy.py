"""A policy: its parameters, its optimiser's state, and the statistics that scale its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.weights import PolicyWeights
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.adam import AdamState
from nitro_learner.algorithms.ppo.memories import CriticMemories
from nitro_learner.data.batch import RewardLanes
from nitro_learner.networks.actor_critic import PoliciesWithCritics, StackedShape
from nitro_learner.networks.normalise import OBSERVATION_CLIP, ObservationNormaliser, RewardNormaliser


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """The data of a policy, whichever agents play it.

    Attributes:
        parameters: f32 [n], the policy's and then the critic's.
        adam: of these parameters.
        kl_coefficient: weight of the KL penalty.
        observations: standardises the policy's observations; None where they stay raw.
        states: standardises the global states that its critic sees; None if the critic sees no states, or raw
            ones.
        rewards: scales rewards; None where they stay as they are.
        memories: what its critic remembers of episodes that go on; None without a recurrent layer.
    """

    parameters: Tensor
    adam: AdamState
    kl_coefficient: float
    observations: ObservationNormaliser | None
    states: ObservationNormaliser | None
    rewards: RewardNormaliser | None
    memories: CriticMemories | None = None

    @classmethod
    def fresh(
        cls,
        network: PoliciesWithCritics[StackedShape],
        settings: ActorCriticHyperparameters,
        observation: Mapping[str, Any],
        generator: torch.Generator,
        device: str,
    ) -> AgentPolicy:
        """A policy as a run begins with it, whose critic sees no global state and remembers nothing.

        Args:
            network: its shape.
            settings: of the algorithm.
            observation: its agents' space.
            generator: draws the parameters.
            device: a torch device.
        """
        shape = tuple(observation["shape"])
        return cls(
            network.initial(generator, orthogonal=settings.orthogonal_init).to(device),
            AdamState.fresh(network.size, device),
            settings.kl_coefficient,
            observations=ObservationNormaliser(shape) if settings.normalise_observations else None,
            states=None,
            rewards=RewardNormaliser(settings.gamma) if settings.normalise_rewards else None,
        )

    def copy(self) -> AgentPolicy:
        """A policy that learns on without changing this one."""
        return replace(
            self,
            parameters=self.parameters.clone(),
            adam=self.adam.copy(),
            observations=deepcopy(self.observations),
            states=deepcopy(self.states),
            rewards=deepcopy(self.rewards),
            memories=deepcopy(self.memories),
        )

    def trained(self, parameters: Tensor, adam: AdamState, kl_coefficient: float) -> AgentPolicy:
        """The policy after an update."""
        return replace(self, parameters=parameters, adam=adam, kl_coefficient=kl_coefficient)

    def scaled(self, fragments: Sequence[RewardLanes]) -> list[np.ndarray]:
        """A round's rewards as the critic sees them, f32 [L, lanes] of each fragment."""
        return [f.rewards for f in fragments] if self.rewards is None else self.rewards(fragments)

    def weights(
        self, network: PoliciesWithCritics[StackedShape], description: Mapping[str, Any]
    ) -> PolicyWeights:
        """What actors need of it, as copies.

        Args:
            network: its shape.
            description: the weights container's `network`.
        """
        tensors = {
            name: value[0].detach().cpu().numpy().copy()
            for name, value in network.sent(self.parameters[None]).items()
        }
        if self.observations is None:
            return PolicyWeights(dict(description), tensors, None)
        return PolicyWeights(dict(description), tensors | self.observations.tensors(), OBSERVATION_CLIP)

    def state_dict(self, network: PoliciesWithCritics[StackedShape]) -> dict[str, Any]:
        """The policy's part of a checkpoint."""
        state = {
            "parameters": {
                name: value[0].detach().cpu().clone()
                for name, value in network.named(self.parameters[None]).items()
            },
            "adam": self.adam.state_dict(),
            "kl_coefficient": self.kl_coefficient,
            "observations": self.observations.state_dict() if self.observations else None,
            "states": self.states.state_dict() if self.states else None,
            "rewards": self.rewards.state_dict() if self.rewards else None,
        }
        return state | ({"memories": self.memories.state_dict()} if self.memories else {})

    def adopting(self, state: Mapping[str, Any], network: PoliciesWithCritics[StackedShape]) -> AgentPolicy:
        """A policy of the same shape that begins with what the one of `state_dict()` has learned.

        Raises:
            ValueError: a tensor of the state has another shape.
        """
        loaded = self.copy()
        named = network.named(loaded.parameters[None])
        load_named({name: value[0] for name, value in named.items()}, state["parameters"])
        for part, name in (
            (loaded.observations, "observations"),
            (loaded.states, "states"),
        ):
            if part is not None:
                part.load_state_dict(state[name])
        if loaded.rewards:
            loaded.rewards.adopt(state["rewards"])
        return replace(loaded, adam=AdamState.of(state["adam"], str(self.parameters.device)))

    def resumed(self, state: Mapping[str, Any]) -> AgentPolicy:
        """The policy that began with what this `state_dict()` has, with the rest of it: it goes on."""
        if self.rewards:
            self.rewards.load_state_dict(state["rewards"])
        if self.memories:
            self.memories.load_state_dict(state["memories"])
        return replace(self, kl_coefficient=float(state["kl_coefficient"]))


def load_named(own: dict[str, Tensor], saved: dict[str, Any]) -> None:
    """Copy saved parameters into those of the same names.

    Raises:
        ValueError: one has another shape.
    """
    for name, parameter in own.items():
        value = torch.as_tensor(saved[name])
        if value.shape != parameter.shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}")
        parameter.copy_(value)
