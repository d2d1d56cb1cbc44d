"""An `ActorCritic` of one policy as a PyTorch module, for RLlib, which has optimisers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from nitro_learner.networks.actor_critic import ActorCritic, Bound
from nitro_learner.networks.images import Weights


class ActorCriticModule(nn.Module):
    """A policy and its critic; the names of their parameters are the wire's.

    Attributes:
        shape: of both.
        policy: observations [n, D] or [n, *shape] to the action distribution's parameters [n, P].
        critic: observations to V [n, 1].
    """

    def __init__(self, shape: ActorCritic, parameters: Tensor) -> None:
        """
        Args:
            shape: of a policy alone.
            parameters: f32 [1, n], whose memory the module's parameters share.
        """
        super().__init__()
        self.shape = shape
        named = {name: value[0] for name, value in shape.named(parameters).items()}
        self.policy, self.critic = PolicyPart(shape, named), CriticPart(shape, named)

    def bound(self) -> Bound:
        """The parameters, for `ActorCritic`."""
        return replace(self.policy.bound(), critic=self.critic.bound().critic)

    def values(self, observations: Tensor) -> Tensor:
        """V [n] of observations, without a graph."""
        return self.shape.traced_values(self.bound(), observations)


class _Part(nn.Module):
    """One of the two networks."""

    def __init__(self, shape: ActorCritic, named: Mapping[str, Tensor], prefix: str) -> None:
        super().__init__()
        self.shape = shape
        for name, value in named.items():
            if name.startswith(prefix):
                *path, last = name.removeprefix(prefix).split(".")
                module: nn.Module = self
                for step in path:
                    if step not in module._modules:
                        module.add_module(step, nn.Module())
                    module = module.get_submodule(step)
                module.register_parameter(last, nn.Parameter(value))

    def _weights(self) -> Weights:
        """The weights and biases of the layers, from below."""
        linear = [value for name, value in self.named_parameters() if name != "log_std"]
        return list(zip(linear[::2], linear[1::2], strict=True))


class PolicyPart(_Part):
    """See `ActorCriticModule`."""

    def __init__(self, shape: ActorCritic, named: Mapping[str, Tensor]) -> None:
        super().__init__(shape, named, "policy.")

    def bound(self) -> Bound:
        """The parameters, for `ActorCritic`; nothing of the critic."""
        log_std = self._parameters.get("log_std")
        return Bound(self._weights(), [], None if log_std is None else log_std[None], first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.shape.distribution(self.bound(), x, None)


class CriticPart(_Part):
    """See `ActorCriticModule`."""

    def __init__(self, shape: ActorCritic, named: Mapping[str, Tensor]) -> None:
        super().__init__(shape, named, "critic.")

    def bound(self) -> Bound:
        """The parameters, for `ActorCritic`; nothing of the policy."""
        return Bound([], self._weights(), None, first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.shape.values(self.bound(), x)[:, None]
