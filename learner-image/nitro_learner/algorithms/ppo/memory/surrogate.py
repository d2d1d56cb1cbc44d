"""A round's objective of a policy with a recurrent layer, for the detector and the noise meter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import unroll
from nitro_learner.algorithms.agents.stacked_recurrent import drawn_sequences
from nitro_learner.algorithms.ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.ppo.memory.passes import CHUNK
from nitro_learner.algorithms.ppo.memory.sequences import Sequences
from nitro_learner.algorithms.ppo.surrogate import PolicySurrogate

Theta = tuple[Tensor, Tensor]
"""The parameters of a policy and of its critic, f32 [1, .] each."""


@dataclass(frozen=True, slots=True)
class RecurrentSurrogate(PolicySurrogate[RecurrentActorCritic, Theta, Sequences]):
    """Of a policy that remembers. A transition depends on the parameters by all steps of its sequence up to
    its own. So the sequences of the drawn transitions are replayed, and only the drawn transitions are
    summed."""

    def _drawn(self, seen: Sequences, rows: Tensor) -> list[Sequences]:
        weights = seen.rows.weights
        full_weights = torch.ones_like(seen.rows.advantages) if weights is None else weights
        drawn, needed = drawn_sequences(full_weights, rows, seen.length)
        only = replace(seen, rows=replace(seen.rows, weights=full_weights * drawn))
        return only.take(needed[None]).parts(CHUNK)

    def _each(self, seen: Sequences) -> list[Sequences]:
        return seen.parts(self.agents * seen.length)  # an environment's agents follow each other

    def _leaves(self, theta: Theta, *, critic: bool) -> tuple[Theta, list[Tensor]]:
        policy, values = (part.detach().requires_grad_() for part in theta)
        return (policy, values), [policy, values] if critic else [policy]

    def _distributions(self, theta: Theta, part: Sequences) -> Tensor:
        return self.network.distributions(theta[0], part)

    def _outputs(self, theta: Theta, part: Sequences) -> tuple[Tensor, Tensor]:
        return self.network(*theta, part, unroll)
