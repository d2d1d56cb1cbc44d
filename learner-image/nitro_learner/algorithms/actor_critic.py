"""The base of our algorithms: the policy and the critic, their optimiser and normalisers, one gradient step,
weights for the actors, and the state.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_api import JobSpec
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.adam import Adam
from nitro_learner.algorithms.base import SINGLE_AGENT, check_network
from nitro_learner.algorithms.gradient import Gradient, MeanNorm
from nitro_learner.algorithms.ppo.gradient import PpoGradient
from nitro_learner.algorithms.ppo.loss import Coefficients, Samples, terms
from nitro_learner.data.batch import vectors
from nitro_learner.data.shapes import check
from nitro_learner.networks.actor_critic import ActorCritic, chunk_size
from nitro_learner.networks.architecture import arguments, description
from nitro_learner.networks.distributions import Distribution, distribution_of
from nitro_learner.networks.normalise import OBSERVATION_CLIP, ObservationNormaliser, RewardNormaliser


class ActorCriticAlgorithm:
    """The part of `Learner` that does not depend on how the policy is improved."""

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    settings: ActorCriticHyperparameters

    def __init__(self, spec: JobSpec, environment: DescribedEnvironment, device: str = "cpu") -> None:
        """Start from `spec` (resolved) and the actors' environment."""
        if not isinstance(spec.algorithm.hyperparameters, ActorCriticHyperparameters):
            raise TypeError(f"{spec.algorithm.name} has no settings of an actor-critic")
        self.settings = spec.algorithm.hyperparameters
        self._rounds = spec.stop.rounds
        self._seed = spec.seed
        self._device = device
        shape = tuple(environment.one.observation["shape"])
        self._network_meta = description(spec, environment)
        self.distribution = distribution_of(environment.one.action)
        self.network = ActorCritic(
            **arguments(spec, environment),
            orthogonal=self.settings.orthogonal_init,
            seed=spec.seed,
            device=device,
        )
        self.chunk = chunk_size(self.network, device)
        self._optimiser = Adam(self.network.flat, self.settings.learning_rate, self.settings.adam_epsilon)
        self._norms = MeanNorm()
        self.kl_coefficient = self.settings.kl_coefficient
        self.observations = ObservationNormaliser(shape) if self.settings.normalise_observations else None
        self.rewards = RewardNormaliser(self.settings.gamma) if self.settings.normalise_rewards else None

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        tensors = {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self.network.named_parameters()
            if name.startswith("policy.")
        }
        clip = None
        if self.observations is not None:
            tensors |= self.observations.tensors()
            clip = OBSERVATION_CLIP
        return {DEFAULT_POLICY: PolicyWeights(dict(self._network_meta), tensors, clip)}

    def begin_round(self, round: int, rounds: int) -> None:  # noqa: ARG002
        """See `Learner`."""
        self._rounds = rounds

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": self._network_meta,
            "parameters": {name: p.detach().cpu().clone() for name, p in self.network.named_parameters()},
            "adam": self._optimiser.state_dict(),
            "kl_coefficient": self.kl_coefficient,
            "observations": self.observations.state_dict() if self.observations else None,
            "rewards": self.rewards.state_dict() if self.rewards else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adopt(state)
        self.kl_coefficient = float(state["kl_coefficient"])
        if self.rewards:
            self.rewards.load_state_dict(state["rewards"])

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        check_network(state["network"], self._network_meta)
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                value = torch.as_tensor(state["parameters"][name])
                if value.shape != parameter.shape:
                    raise ValueError(
                        f"{name} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}"
                    )
                parameter.copy_(value)
        self._optimiser.load_state_dict(state["adam"])
        self._norms.take()
        if self.observations:
            self.observations.load_state_dict(state["observations"])
        if self.rewards:
            self.rewards.adopt(state["rewards"])

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Learner`."""
        if self.rewards:
            self.rewards.copy_slots(sources)

    def inputs(self, observations: np.ndarray) -> np.ndarray:
        """Convert raw observations [n, *obs] to the networks' inputs: normalised if the job asks for it, and
        flat unless they are images."""
        rows = observations if self.observations is None else self.observations(observations)
        return rows if self.network.images else vectors(rows)

    def values(self, observations: Tensor) -> Tensor:
        return torch.cat([self.network.values(rows) for rows in torch.split(observations, self.chunk)])

    def minibatches(self, samples: Samples, generator: torch.Generator) -> list[Samples]:
        """One epoch: the whole batch, or a permutation of it in parts of nearly minibatch_size."""
        size = self.settings.minibatch_size or len(samples)
        if size >= len(samples):
            return [samples]
        parts = math.ceil(len(samples) / size)
        shuffled = samples.rows(torch.randperm(len(samples), generator=generator).to(self._device))
        return shuffled.slices(math.ceil(len(samples) / parts))

    def step(self, minibatch: Samples, c: Coefficients) -> None:
        """Take one gradient step on the minibatch's mean loss."""
        if self.settings.standardise_advantages == "minibatch":
            minibatch = minibatch.with_advantages(standardise(minibatch.advantages))
        self.apply(PpoGradient(self.distribution, c, self.chunk)(self.network, minibatch))

    def apply(self, gradient: Gradient) -> None:
        """Take the optimiser's step along a gradient, which is clipped in place."""
        self._norms.add(gradient.clip_(self.settings.max_grad_norm))
        self._optimiser.step(gradient.values)

    def stats(self, samples: Samples, c: Coefficients) -> dict[str, float]:
        """The loss's terms over the whole batch at the updated parameters, and the mean norm of the
        gradients since the last call."""
        terms, norms = loss_terms(self.network, self.distribution, samples, c, self.chunk), self._norms.take()
        return terms | ({"gradient_norm": norms[0]} if norms else {})

    def learning_rate(self, round: int) -> float:
        """The learning rate of round `round` (from 1)."""
        return annealed(self.settings, round, self._rounds)

    def check_finite(self, round: int) -> None:
        """Raise FloatingPointError once the weights are not finite any more."""
        if not torch.isfinite(self.network.flat).all():
            raise FloatingPointError(
                f"round {round}: the weights became infinite or NaN; "
                "lower hyperparameters.learningRate or set hyperparameters.maxGradNorm"
            )

    def coefficients(self) -> Coefficients:
        """The loss's present coefficients."""
        s = self.settings
        return Coefficients(
            clip=s.clip,
            kl=self.kl_coefficient,
            entropy=s.entropy_coefficient,
            value=s.value_coefficient,
            value_clip=math.inf,
        )

    def scaled(self, advantages: Tensor) -> Tensor:
        """Standardise a batch's advantages unless the job says `off`. `step` standardises a minibatch's."""
        return advantages if self.settings.standardise_advantages == "off" else standardise(advantages)

    def standardised(self, advantages: Tensor) -> Tensor | None:
        """Standardised advantages for the detector's objective; None if `scaled` has standardised them."""
        return standardise(advantages) if self.settings.standardise_advantages == "off" else None

    def adapt_kl_coefficient(self, kl: float) -> None:
        """Adapt the KL penalty's weight to a divergence; see `adapted`."""
        self.kl_coefficient = adapted(self.kl_coefficient, kl, self.settings.kl_target)


def adapted(coefficient: float, kl: float, target: float) -> float:
    """The KL penalty's next weight: more after a divergence above twice the target, less below half of it."""
    if kl > 2 * target:
        return coefficient * 1.5
    return coefficient * 0.5 if kl < 0.5 * target else coefficient


class LearningRate(Protocol):
    """The settings of a learning rate that may fall over a run."""

    @property
    def learning_rate(self) -> float: ...

    @property
    def learning_rate_anneal(self) -> bool: ...


def annealed(settings: LearningRate, round: int, rounds: int | None) -> float:
    """The learning rate of round `round` (from 1) of a run of `rounds`; constant if that is None."""
    if not settings.learning_rate_anneal or rounds is None:
        return settings.learning_rate
    return settings.learning_rate * max(0.0, 1 - (round - 1) / rounds)


@torch.no_grad()
def loss_terms(
    network: ActorCritic, distribution: Distribution, samples: Samples, c: Coefficients, chunk: int
) -> dict[str, float]:
    """Means of the loss's terms over the samples at the network's present parameters, `chunk` rows at a
    time: policy_loss, value_loss, entropy, kl, clip_fraction."""
    sums = torch.zeros(5, dtype=torch.float64)
    for part in samples.slices(chunk):
        traced = network.policy.distribution(network.policy.trace(part.observations))
        params = part.masked(traced, distribution)
        t = terms(part, params, network.values(part.observations), distribution, c)
        columns = (-t.surrogate, t.value_error, t.entropy, t.kl, t.clipped)
        sums += torch.stack([column.sum(dtype=torch.float64) for column in columns]).cpu()
    names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
    return dict(zip(names, (sums / len(samples)).tolist(), strict=True))


def standardise(advantages: Tensor) -> Tensor:
    """Shift and scale to mean 0 and deviation 1; the divisor is max(1e-4, std)."""
    return (advantages - advantages.mean()) / advantages.std(correction=0).clamp(min=1e-4)


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns): 1 for a perfect critic, 0 for one that explains nothing.

    Raises:
        ValueError: the tensors differ in shape.
    """
    check(returns.shape, "returns", {"values": values})
    unexplained = (returns - values).var(correction=0) / returns.var(correction=0).clamp(min=1e-12)
    return 1 - unexplained.item()


def stream(seed: int, *keys: int) -> int:
    """Seed of the random numbers of these keys, such as the minibatches of a round."""
    return int(np.random.SeedSequence([seed, *keys]).generate_state(1, np.uint64)[0] >> np.uint64(1))
