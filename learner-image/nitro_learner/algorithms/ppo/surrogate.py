"""A PPO round's objective, for the detector and the noise meter."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.loss import Coefficients, Samples, surrogate, terms
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories
from nitro_learner.networks.actor_critic import ActorCritic, chunk_size
from nitro_learner.networks.distributions import Distribution


@dataclass(frozen=True, slots=True)
class PpoSurrogate:
    """Round k's data, advantages standardised over the whole batch, at the network's present parameters.
    Only `total`, the training's own loss, has the advantages that the training saw.

    Attributes:
        network: at theta_{k+1}.
        samples: as the loss sees them.
        sampled: a copy at theta_k, which sampled the round; None if `network` has not been updated since
            then.
        slots: fragments in the samples, all of one length.
        envs: environments of each fragment.
        standardised: f32 [n], standardised advantages if the loss sees other ones; None if the loss sees
            these.
    """

    network: ActorCritic
    distribution: Distribution
    samples: Samples
    coefficients: Coefficients
    sampled: ActorCritic | None = None
    slots: int = 1
    envs: int = 1
    standardised: Tensor | None = None

    @property
    def size(self) -> int:
        return len(self.samples)

    @property
    def drawable(self) -> Tensor:
        return torch.arange(self.size)

    def function(self, objective: Objective, rows: Tensor) -> Function:
        device = self.samples.observations.device
        chunks = self._seen(objective).rows(rows.to(device)).slices(chunk_size(self.network, device.type))
        return self._function(self.network, objective, chunks, len(rows))

    def trajectories(self, objective: Objective) -> Trajectories:
        # Rows are ordered by slot, then step, then environment.
        by_slot = self._seen(objective).slices(self.size // self.slots)
        parts = [slot.every(self.envs, start) for slot in by_slot for start in range(self.envs)]
        mean = self._function(self.sampled or self.network, objective, parts, self.size)
        return Trajectories(mean, [len(part) for part in parts], self.size)

    def _seen(self, objective: Objective) -> Samples:
        if objective == "total" or self.standardised is None:
            return self.samples
        return self.samples.with_advantages(self.standardised)

    def _function(
        self, network: ActorCritic, objective: Objective, parts: Sequence[Samples], size: int
    ) -> Function:
        module = network if objective == "total" else network.policy
        return Function(
            terms=[partial(self._mean, network, objective, part, size) for part in parts],
            parameters=list(module.parameters()),
        )

    def _mean(self, network: ActorCritic, objective: Objective, chunk: Samples, size: int) -> Tensor:
        """The chunk's part of the mean over `size` transitions."""
        params, c = chunk.masked(network.policy(chunk.observations), self.distribution), self.coefficients
        if objective == "total":
            values = network.critic(chunk.observations)[:, 0]
            each = terms(chunk, params, values, self.distribution, c).loss(c)
        else:
            each = policy_objective(objective, self.distribution, chunk, params, c.clip)
        return each.sum() / size


def policy_objective(
    objective: Objective, distribution: Distribution, samples: Samples, params: Tensor, clip: float
) -> Tensor:
    """`clip` or `ratio1` of each sample at the new distribution's parameters [n, .]."""
    log_prob = distribution.log_prob(params, samples.actions)
    if objective == "ratio1":
        return torch.exp(log_prob - log_prob.detach()) * samples.advantages
    return surrogate(torch.exp(log_prob - samples.log_probs), samples.advantages, clip)
