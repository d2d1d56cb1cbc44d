"""A round's objective of a policy with a recurrent layer, for the detector and the noise meter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from nitro_learner.algorithms.agents.gru import unroll
from nitro_learner.algorithms.agents.stacked_recurrent import drawn_sequences
from nitro_learner.algorithms.multi_ppo.memory.loss import CHUNK
from nitro_learner.algorithms.multi_ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.multi_ppo.memory.sequences import Sequences
from nitro_learner.algorithms.multi_ppo.surrogate import PolicySurrogate


@dataclass(frozen=True, slots=True)
class RecurrentSurrogate(PolicySurrogate[RecurrentActorCritic, Sequences]):
    """Of a policy that remembers. A transition depends on the parameters by all steps of its sequence up to
    its own. So the sequences of the drawn transitions are replayed, and only the drawn transitions are
    summed."""

    def _drawn(self, seen: Sequences, rows: Tensor) -> list[Sequences]:
        drawn, needed = drawn_sequences(seen.weights, rows, seen.length)
        only = seen.with_rows(replace(seen.rows, weights=seen.weights * drawn))
        return only.take(needed[None]).parts(CHUNK)

    def _each(self, seen: Sequences) -> list[Sequences]:
        return seen.parts(self.agents * seen.length)  # an environment's agents follow each other

    def _distributions(self, policy: Tensor, part: Sequences) -> Tensor:
        return self.step.network.distributions(policy, part)

    def _outputs(self, policy: Tensor, critic: Tensor, part: Sequences) -> tuple[Tensor, Tensor]:
        return self.step.network(policy, critic, part, unroll)
