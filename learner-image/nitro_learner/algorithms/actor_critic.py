"""The base of IMPACT: the policy and the critic of one agent, their optimiser and normalisers, one gradient
step, weights for the actors, and the state. And what it shares with PPO and the Q-learners."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.agents.policy_network import actor_critic_description
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import SINGLE_AGENT, check_network
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.ppo.loss import Coefficients, gradient, loss_terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.data.batch import vectors
from nitro_learner.networks.actor_critic import chunk_size
from nitro_learner.networks.architecture import network_of
from nitro_learner.networks.normalise import OBSERVATION_CLIP, ObservationNormaliser, RewardNormaliser


class ActorCriticAlgorithm:
    """The part of `Learner` that does not depend on how the policy is improved.

    Attributes:
        network: the shape of policy and critic.
        parameters: f32 [1, n], theirs.
        theta: views of them.
    """

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    settings: ActorCriticHyperparameters

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: the only agent of its environment.
            device: a torch device.

        Raises:
            NetworkMisfit: the network does not fit the observations.
            TypeError: the settings are not those of an actor-critic.
        """
        if not isinstance(team.settings, ActorCriticHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of an actor-critic")
        (one,) = team.classes
        self.settings = team.settings
        self._rounds = team.rounds
        self._seed = team.seed
        self._device = device
        self._network_meta = actor_critic_description(team, one)
        self.network = network_of(team.network, one, team.environment.id)
        generator = torch.Generator().manual_seed(team.seed)
        row = self.network.initial(generator, orthogonal=self.settings.orthogonal_init)
        self.parameters = row[None].to(device)
        self.theta = self.network.bind(self.parameters)
        self._gradient = torch.zeros_like(self.parameters)
        self._into = self.network.bind(self._gradient)
        self.chunk = chunk_size(self.network.images, device)
        self._optimiser = self._adam(AdamState.fresh(self.network.size, device))
        self._norms = MeanNorm()
        self.kl_coefficient = self.settings.kl_coefficient
        shape = tuple(one.observation["shape"])
        self.observations = ObservationNormaliser(shape) if self.settings.normalise_observations else None
        self.rewards = RewardNormaliser(self.settings.gamma) if self.settings.normalise_rewards else None

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        tensors = {
            name: parameter.cpu().numpy().copy()
            for name, parameter in self.named().items()
            if name.startswith("policy.")
        }
        clip = None
        if self.observations is not None:
            tensors |= self.observations.tensors()
            clip = OBSERVATION_CLIP
        return {DEFAULT_POLICY: PolicyWeights(dict(self._network_meta), tensors, clip)}

    def named(self) -> dict[str, Tensor]:
        """The parameters by name, policy.* and critic.*, as views."""
        return {name: value[0] for name, value in self.network.named(self.parameters).items()}

    def begin_round(self, round: int, rounds: int) -> None:  # noqa: ARG002
        """See `Learner`."""
        self._rounds = rounds

    def state_dict(self) -> dict[str, Any]:
        (adam,) = self._optimiser.states()
        return {
            "network": self._network_meta,
            "parameters": {name: value.cpu().clone() for name, value in self.named().items()},
            "adam": adam.state_dict(),
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
        load_named(self.named(), state["parameters"])
        self._optimiser = self._adam(AdamState.of(state["adam"], self._device))
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
        """V [n] of the networks' inputs."""
        parts = torch.split(observations, self.chunk)
        return torch.cat([self.network.traced_values(self.theta, rows) for rows in parts])

    def minibatches(self, samples: Samples, generator: torch.Generator) -> list[Samples]:
        """One epoch: the whole batch, or a permutation of it in parts of nearly minibatch_size."""
        count = math.ceil(samples.size / (self.settings.minibatch_size or samples.size))
        return [samples] if count == 1 else samples.shuffled([generator], count)

    def step(self, minibatch: Samples, c: Coefficients, rate: float) -> None:
        """Take one gradient step on the minibatch's mean loss."""
        if self.settings.standardise_advantages == "minibatch":
            minibatch = minibatch.with_advantages(minibatch.standardised())
        self._gradient.zero_()
        gradient(self.network, self.theta, minibatch.parts(self.chunk), c, self._into)
        self._norms.add(clip_rows(self._gradient, self.settings.max_grad_norm))
        self._optimiser.step(self._gradient, rate)

    def stats(self, samples: Samples, c: Coefficients) -> dict[str, float]:
        """The loss's terms over the whole batch at the updated parameters, and the mean norm of the
        gradients since the last call."""
        (terms,) = loss_terms(self.network, self.theta, samples.parts(self.chunk), c)
        norms = self._norms.take()
        return terms | ({"gradient_norm": norms[0]} if norms else {})

    def learning_rate(self, round: int) -> float:
        """The learning rate of round `round` (from 1)."""
        return annealed(self.settings, round, self._rounds)

    def check_finite(self, round: int) -> None:
        """Raise FloatingPointError once the weights are not finite any more."""
        if not torch.isfinite(self.parameters).all():
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

    def scaled(self, samples: Samples) -> tuple[Samples, Tensor | None]:
        """A batch's samples as the loss sees them: standardised unless the job says `off` (`step`
        standardises a minibatch's). And standardised advantages for the detector's objective, if these are
        other ones."""
        advantages = samples.standardised()
        if self.settings.standardise_advantages == "off":
            return samples, advantages
        return samples.with_advantages(advantages), None

    def adapt_kl_coefficient(self, kl: float) -> None:
        """Adapt the KL penalty's weight to a divergence; see `adapted`."""
        self.kl_coefficient = adapted(self.kl_coefficient, kl, self.settings.kl_target)

    def _adam(self, state: AdamState) -> Adam:
        return Adam(self.parameters, [state], self.settings.adam_epsilon)


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


def stream(seed: int, *keys: int) -> int:
    """Seed of the random numbers of these keys, such as the minibatches of a round."""
    return int(np.random.SeedSequence([seed, *keys]).generate_state(1, np.uint64)[0] >> np.uint64(1))
