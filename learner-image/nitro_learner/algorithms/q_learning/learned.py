"""All parameters of a Q-learner: those of its policies, and the mixer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.q_learning.policies import PolicyStack


class Learned:
    """The parameters that gradient steps change.

    Attributes:
        stacks: the policies of each class.
        mixer: the mixer's parameters, f32 [1, m].
        mixer_target: those of the target networks' mixer.
    """

    def __init__(self, stacks: dict[str, PolicyStack], mixer: Tensor, adam_epsilon: float) -> None:
        """
        Args:
            stacks: see the attributes.
            mixer: f32 [m]; copied.
            adam_epsilon: Adam's epsilon.
        """
        self.stacks = stacks
        self.mixer, self.mixer_target = mixer[None].clone(), mixer[None].clone()
        self._adam_epsilon = adam_epsilon
        self._adam = self._optimiser(AdamState.fresh(len(mixer), str(mixer.device)))

    def step_mixer(self, gradient: Tensor, rate: float) -> None:
        """Take Adam's step along the mixer's gradient [1, m]."""
        if self.mixer.numel():
            self._adam.step(gradient, rate)

    def follow(self) -> None:
        """Make the targets equal to the learned networks."""
        self.mixer_target.copy_(self.mixer)
        for stack in self.stacks.values():
            stack.follow()

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        parts = [self.mixer, *(stack.parameters for stack in self.stacks.values())]
        return all(bool(torch.isfinite(part).all()) for part in parts)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        (adam,) = self._adam.states()
        return {
            "policies": {name: stack.state_dict() for name, stack in self.stacks.items()},
            "mixer": self.mixer[0].cpu().clone(),
            "mixer_target": self.mixer_target[0].cpu().clone(),
            "mixer_adam": adam.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], stacks: Mapping[str, PolicyStack]) -> None:
        """Continue from `state_dict()`.

        Args:
            state: what was saved.
            stacks: of the state's policies, whatever they hold.

        Raises:
            ValueError: a tensor of the state has another shape.
        """
        self.stacks = {name: stack.loaded(state["policies"][name]) for name, stack in stacks.items()}
        for own, name in ((self.mixer, "mixer"), (self.mixer_target, "mixer_target")):
            saved = torch.as_tensor(state[name])
            if saved.shape != own[0].shape:
                raise ValueError(f"{name} has shape {tuple(saved.shape)}, expected {tuple(own[0].shape)}")
            own[0].copy_(saved)
        self._adam = self._optimiser(AdamState.of(state["mixer_adam"], str(self.mixer.device)))

    def _optimiser(self, state: AdamState) -> Adam:
        return Adam(self.mixer, [state], self._adam_epsilon)
