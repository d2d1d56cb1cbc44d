"""A round's objective of one policy, for the detector and the noise meter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.loss import Coefficients, surrogate, terms
from nitro_learner.algorithms.ppo.samples import Data, Samples
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories
from nitro_learner.networks.actor_critic import ActorCritic, Bound, PoliciesWithCritics, chunk_size
from nitro_learner.networks.distributions import Distribution

Network = TypeVar("Network", bound=PoliciesWithCritics[Any])
Theta = TypeVar("Theta")


@dataclass(frozen=True, slots=True)
class PolicySurrogate(ABC, Generic[Network, Theta, Data]):
    """Round k's data of a policy, whatever its network, advantages standardised over the whole batch, at the
    policy's present parameters. Only `total`, the training's own loss, has the advantages that the training
    saw. Means are over transitions of agents that acted.

    Attributes:
        network: the shape of policy and critic.
        theta: the parameters theta_{k+1}, the learner's own until its next update.
        samples: of this policy, as the loss sees them.
        coefficients: of the loss.
        sampled: theta_k, which sampled the round; None if the parameters have not been updated since then.
        standardised: f32 [N], standardised advantages if the loss sees other ones; None if it sees these.
        agents: of each environment in the samples.
    """

    network: Network
    theta: Theta
    samples: Data
    coefficients: Coefficients
    sampled: Theta | None
    standardised: Tensor | None
    agents: int

    @property
    def size(self) -> int:
        return self.samples.size

    @property
    def drawable(self) -> Tensor:
        weights = self.samples.samples.weights
        return torch.arange(self.size) if weights is None else weights.nonzero()[:, 0].cpu()

    def function(self, objective: Objective, rows: Tensor) -> Function:
        rows = rows.to(self.samples.samples.advantages.device)
        return self._mean_of(self.theta, objective, self._drawn(self._seen(objective), rows))[0]

    def trajectories(self, objective: Objective) -> Trajectories:
        theta = self.theta if self.sampled is None else self.sampled
        mean, sizes = self._mean_of(theta, objective, self._each(self._seen(objective)))
        return Trajectories(mean, sizes, self.size // self.agents)

    @abstractmethod
    def _drawn(self, seen: Data, rows: Tensor) -> Sequence[Data]:
        """The transitions `rows`, in parts of one pass."""

    @abstractmethod
    def _each(self, seen: Data) -> Sequence[Data]:
        """The trajectories of each environment, with all its agents: they share returns."""

    @abstractmethod
    def _leaves(self, theta: Theta, *, critic: bool) -> tuple[Theta, list[Tensor]]:
        """Parameters to differentiate by, which change with those of `theta`, and a list of them: the
        policy's, and with `critic` those of its critic."""

    @abstractmethod
    def _distributions(self, theta: Theta, part: Data) -> Tensor:
        """The action distributions' parameters [n, .], with a graph."""

    @abstractmethod
    def _outputs(self, theta: Theta, part: Data) -> tuple[Tensor, Tensor]:
        """The action distributions' parameters [n, .] and values V [n], with a graph."""

    def _seen(self, objective: Objective) -> Data:
        if objective == "total" or self.standardised is None:
            return self.samples
        return self.samples.with_advantages(self.standardised)

    def _mean_of(
        self, theta: Theta, objective: Objective, parts: Sequence[Data]
    ) -> tuple[Function, list[float]]:
        """The mean over the parts, a term for each of them, and the number of summands in each."""
        leaves, parameters = self._leaves(theta, critic=objective == "total")
        weights = [part.samples.weights for part in parts]
        sizes = [
            float(part.size) if weight is None else weight.sum().item()
            for part, weight in zip(parts, weights, strict=True)
        ]
        acted = max(sum(sizes), 1.0)
        shares = [partial(self._share, leaves, objective, part, acted) for part in parts]
        return Function(terms=shares, parameters=parameters), sizes

    def _share(self, theta: Theta, objective: Objective, part: Data, acted: float) -> Tensor:
        """The part's share of the mean."""
        family, c, samples = self.network.family, self.coefficients, part.samples
        if objective == "total":
            params, values = self._outputs(theta, part)
            losses = terms(samples, params, values, family, c).loss(c)
        else:
            losses = policy_objective(objective, family, samples, self._distributions(theta, part), c.clip)
        return (losses if samples.weights is None else losses * samples.weights).sum() / acted


@dataclass(frozen=True, slots=True)
class PpoSurrogate(PolicySurrogate[ActorCritic, Bound, Samples]):
    """Of a policy that acts on the present observation alone.

    Attributes:
        slots: fragments in the samples, all of one length.
        envs: environments of each fragment, whose steps alternate in the samples, agent by agent.
    """

    slots: int = 1
    envs: int = 1

    def _drawn(self, seen: Samples, rows: Tensor) -> list[Samples]:
        device = seen.advantages.device.type if self.network.alone else "cpu"
        return seen.rows(rows).parts(chunk_size(self.network.images, device))

    def _each(self, seen: Samples) -> list[Samples]:
        return seen.trajectories(self.slots, self.envs, self.agents)

    def _leaves(self, theta: Bound, *, critic: bool) -> tuple[Bound, list[Tensor]]:
        leaves = theta.leaves()
        return leaves, leaves.tensors(critic=critic)

    def _distributions(self, theta: Bound, part: Samples) -> Tensor:
        return self.network.distribution(theta, part.observations, part.available)

    def _outputs(self, theta: Bound, part: Samples) -> tuple[Tensor, Tensor]:
        return self._distributions(theta, part), self.network.values(theta, part.critic_inputs)


def policy_objective(
    objective: Objective, distribution: Distribution, samples: Samples, params: Tensor, clip: float
) -> Tensor:
    """`clip` or `ratio1` of each sample at the new distribution's parameters [n, .]."""
    log_prob = distribution.log_prob(params, samples.actions)
    if objective == "ratio1":
        return torch.exp(log_prob - log_prob.detach()) * samples.advantages
    return surrogate(torch.exp(log_prob - samples.log_probs), samples.advantages, clip)
