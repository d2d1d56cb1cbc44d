"""Gradient steps of SAC, TD3 and DDPG."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nitro_api.algorithms.q_actor_critic import (
    DdpgHyperparameters,
    QActorCriticHyperparameters,
    SacHyperparameters,
    Td3Hyperparameters,
)
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.q_actor_critic.networks import Networks, Trained, fresh
from nitro_learner.networks.images import Weights

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


@dataclass(frozen=True, slots=True)
class Batch:
    """The transitions of a gradient step.

    Attributes:
        observations: f32 [B, D].
        actions: from -1 to 1, f32 [B, A].
        rewards: f32 [B].
        discounts: of what follows, 0 where nothing does; f32 [B].
        following: what is seen after the step, f32 [B, D].
        noise: standard normal, f32 [draws, B, A].
    """

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    following: Tensor
    noise: Tensor


class ActorWithCritics(ABC):
    """A policy and its critics.

    Attributes:
        draws: standard normal numbers that a gradient step needs for each number of an action.
        policy, critics: their networks.
    """

    draws: int

    def __init__(self, policy: Trained, critics: Trained, settings: QActorCriticHyperparameters) -> None:
        self.policy, self.critics, self._settings = policy, critics, settings
        self._sums: dict[str, Tensor] = {}
        self._steps = 0

    @abstractmethod
    def head(self) -> dict[str, Any]:
        """The fields of the network's description that say how actions are drawn."""

    @abstractmethod
    def step(self, batch: Batch, number: int) -> None:
        """Take the gradient step `number` (from 1) of the run."""

    def modes(self, layers: Weights, observations: Tensor) -> Tensor:
        """The actions [B, A] without noise of a policy's layers."""
        return torch.tanh(self.policy.shape(layers, observations[None])[0])

    def values(self, layers: Weights, observations: Tensor) -> Tensor:
        """The critics' values [B] of the actions without noise."""
        return self._rated(torch.cat([observations, self.modes(layers, observations)], -1))

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return self.policy.finite() and self.critics.finite()

    def take_stats(self) -> dict[str, float]:
        """The means of the gradient steps since the last call; none where there was no step."""
        stats = {name: float(total) / self._steps for name, total in self._sums.items()}
        self._sums, self._steps = {}, 0
        return stats

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"policy": self.policy.state_dict(), "critics": self.critics.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`.

        Raises:
            ValueError: the state has other networks.
        """
        epsilon = self._settings.adam_epsilon
        self.policy = self.policy.loaded(state["policy"], epsilon)
        self.critics = self.critics.loaded(state["critics"], epsilon)

    def _rated(self, x: Tensor) -> Tensor:
        """The values [B] that the policy maximises, of observations and actions [B, D + A]."""
        return self.critics.shape(self.critics.layers, x[None]).amin(0)[:, 0]

    @torch.no_grad()
    def _target_values(self, observations: Tensor, actions: Tensor) -> Tensor:
        """The smallest value [B] of the target critics."""
        x = torch.cat([observations, actions], -1)[None]
        return self.critics.shape(self.critics.target_layers, x).amin(0)[:, 0]

    def _learn_values(self, batch: Batch, targets: Tensor, share: float) -> None:
        """Take a step of the critics towards targets [B], down `share` of their squared errors' sum."""
        critics = self.critics
        x = torch.cat([batch.observations, batch.actions], -1)
        values = critics.shape(critics.leaves, x[None])[..., 0]
        loss = share * (values - targets).square().sum() / len(targets)
        critics.step(loss, self._settings.learning_rate)
        self._count(value_loss=loss, q_mean=values.mean())

    def _count(self, **numbers: Tensor) -> None:
        """Add to the statistics."""
        for name, number in numbers.items():
            own = number.detach()
            self._sums[name] = self._sums[name] + own if name in self._sums else own


class Sac(ActorWithCritics):
    """SAC (Haarnoja et al. 2018b): a tanh of a normal distribution, twin critics, and a temperature that
    keeps the entropy at a target."""

    draws = 2

    def __init__(self, policy: Trained, critics: Trained, settings: SacHyperparameters, actions: int) -> None:
        super().__init__(policy, critics, settings)
        given = settings.target_entropy
        self._target_entropy = -float(actions) if given is None else given
        self._tune_with(torch.zeros(1, 1), AdamState.fresh(1))

    def head(self) -> dict[str, Any]:
        return {"head": "squashedGaussian"}

    def modes(self, layers: Weights, observations: Tensor) -> Tensor:
        return torch.tanh(self.policy.shape(layers, observations[None])[0].chunk(2, -1)[0])

    def step(self, batch: Batch, number: int) -> None:  # noqa: ARG002
        temperature = self._log_temperature[0].exp()
        actions, log_probs = self._drawn(self.policy.leaves, batch.observations, batch.noise[1])
        with torch.no_grad():
            next_actions, next_log_probs = self._drawn(self.policy.layers, batch.following, batch.noise[0])
            soft = self._target_values(batch.following, next_actions) - temperature * next_log_probs
            targets = batch.rewards + batch.discounts * soft
        self._learn_values(batch, targets, 0.5)
        values = self._rated(torch.cat([batch.observations, actions], -1))
        loss = (temperature * log_probs - values).mean()
        self.policy.step(loss, self._settings.learning_rate)
        with torch.no_grad():
            entropy = -log_probs.mean()
            self._adam.step((entropy - self._target_entropy).view(1, 1), self._settings.learning_rate)
        self.critics.follow(self._settings.tau)
        self._count(policy_loss=loss, entropy=entropy, temperature=temperature[0])
        self._steps += 1

    def state_dict(self) -> dict[str, Any]:
        (adam,) = self._adam.states()
        own = {"log_temperature": self._log_temperature.cpu().clone(), "temperature_adam": adam.state_dict()}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        log_temperature = torch.as_tensor(state["log_temperature"]).reshape(1, 1)
        self._tune_with(log_temperature, AdamState.of(state["temperature_adam"]))

    def _tune_with(self, log_temperature: Tensor, adam: AdamState) -> None:
        device = self.policy.parameters.device
        self._log_temperature = log_temperature.to(device, copy=True)
        own = AdamState(adam.mean.to(device), adam.square.to(device), adam.steps.to(device))
        self._adam = Adam(self._log_temperature, [own], self._settings.adam_epsilon)

    def _drawn(self, layers: Weights, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] and their log densities [B] under the policy."""
        mean, log_std = self.policy.shape(layers, observations[None])[0].chunk(2, -1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        drawn = mean + log_std.exp() * noise
        # log(1 - tanh(u)^2) without the loss of digits where tanh(u) is near 1.
        slopes = 2 * (math.log(2) - drawn - functional.softplus(-2 * drawn))
        normal = -0.5 * noise.square() - 0.5 * math.log(2 * math.pi)
        return torch.tanh(drawn), (normal - log_std - slopes).sum(-1)


class Deterministic(ActorWithCritics):
    """DDPG (Lillicrap et al. 2016) with one critic; TD3 (Fujimoto et al. 2018) with two, a delayed policy and
    noise on the target policy's actions."""

    def __init__(self, policy: Trained, critics: Trained, settings: DdpgHyperparameters) -> None:
        super().__init__(policy, critics, settings)
        self._exploration = settings.exploration_noise
        self._delay, self._noise, self._clip = 1, 0.0, 0.0
        if isinstance(settings, Td3Hyperparameters):
            self._delay = settings.policy_delay
            self._noise, self._clip = settings.target_noise, settings.target_noise_clip
        self.draws = 1 if self._noise else 0

    def head(self) -> dict[str, Any]:
        return {"head": "tanh", "noise": self._exploration}

    def step(self, batch: Batch, number: int) -> None:
        with torch.no_grad():
            actions = self.modes(self.policy.target_layers, batch.following)
            if self.draws:
                noise = (self._noise * batch.noise[0]).clamp(-self._clip, self._clip)
                actions = (actions + noise).clamp(-1.0, 1.0)
            targets = batch.rewards + batch.discounts * self._target_values(batch.following, actions)
        self._learn_values(batch, targets, 1.0)
        self._steps += 1
        if number % self._delay:
            return
        self.policy.step(
            -self.values(self.policy.leaves, batch.observations).mean(), self._settings.learning_rate
        )
        self.policy.follow(self._settings.tau)
        self.critics.follow(self._settings.tau)

    def _rated(self, x: Tensor) -> Tensor:
        """The values of the first critic alone."""
        first = [(weight[:1], bias[:1]) for weight, bias in self.critics.layers]
        return self.critics.shape(first, x[None])[0, :, 0]


def fresh_actor_critic(
    settings: QActorCriticHyperparameters,
    shapes: tuple[Networks, Networks],
    actions: int,
    generators: tuple[torch.Generator, torch.Generator],
    device: str,
) -> ActorWithCritics:
    """The actor-critic of an algorithm's settings as a run begins with it.

    Args:
        settings: those of SAC, TD3 or DDPG.
        shapes: of the policy and of the critics.
        actions: A.
        generators: of the policy's and of the critics' first parameters.
        device: a torch device.
    """
    critics = 1 if not isinstance(settings, SacHyperparameters | Td3Hyperparameters) else 2
    policy, rated = (
        fresh(shape, count, generator, settings.adam_epsilon, device)
        for shape, count, generator in zip(shapes, (1, critics), generators, strict=True)
    )
    if isinstance(settings, SacHyperparameters):
        return Sac(policy, rated, settings, actions)
    assert isinstance(settings, DdpgHyperparameters), "these settings are SAC's, TD3's or DDPG's"
    return Deterministic(policy, rated, settings)


def policy_outputs(settings: QActorCriticHyperparameters, actions: int) -> int:
    """Outputs of a policy's head."""
    return 2 * actions if isinstance(settings, SacHyperparameters) else actions
