"""Action distributions, given their parameters: the wire's `distribution`.

`log_prob`, `entropy` and `kl` are differentiable any number of times; `grad_log_prob`, `grad_entropy` and
`grad_kl` are their gradients by the parameters, for the hand-written training pass. Actions and parameters
have one row per sample; results have one value or one row per sample.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nitro_actor import masks
from nitro_actor.actions import MultiDiscrete, action_space

UNAVAILABLE = float(masks.UNAVAILABLE)
"""The logit or value of an action that is not available, as a number of PyTorch."""


class Distribution(Protocol):
    """A family of distributions."""

    def masked(self, params: Tensor, available: Tensor) -> Tensor:
        """The parameters [..., P] with a mask, bool [..., C]; see `nitro_actor.masks`. What a mask has
        written does not depend on the parameters."""
        ...

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """log pi(a | s), [n]."""
        ...

    def entropy(self, params: Tensor) -> Tensor:
        """The entropy, [n], nats."""
        ...

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """KL(old || new), [n], nats."""
        ...

    def grad_log_prob(self, params: Tensor, actions: Tensor) -> Tensor: ...

    def grad_entropy(self, params: Tensor) -> Tensor: ...

    def grad_kl(self, old: Tensor, new: Tensor) -> Tensor:
        """Gradient of `kl` by the parameters of `new`."""
        ...


class Gaussian:
    """Independent normals: parameters [n, 2 A], mean then log-std; actions float [n, A]."""

    def masked(self, params: Tensor, available: Tensor) -> Tensor:  # noqa: ARG002
        raise TypeError("actions of real numbers have no mask")

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = params.chunk(2, -1)
        z = (actions - mean) * torch.exp(-log_std)
        return -(0.5 * z * z + log_std).sum(-1) - 0.5 * math.log(2 * math.pi) * mean.shape[-1]

    def entropy(self, params: Tensor) -> Tensor:
        log_std = params.chunk(2, -1)[1]
        return log_std.sum(-1) + 0.5 * math.log(2 * math.pi * math.e) * log_std.shape[-1]

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        (old_mean, old_log_std), (mean, log_std) = old.chunk(2, -1), new.chunk(2, -1)
        squares = torch.exp(2 * old_log_std) + (mean - old_mean) ** 2
        return (log_std - old_log_std + 0.5 * squares * torch.exp(-2 * log_std) - 0.5).sum(-1)

    def grad_log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = params.chunk(2, -1)
        precision = torch.exp(-log_std)
        z = (actions - mean) * precision
        return torch.cat([z * precision, z * z - 1], -1)

    def grad_entropy(self, params: Tensor) -> Tensor:
        grad = torch.zeros_like(params)
        grad[:, params.shape[-1] // 2 :] = 1
        return grad

    def grad_kl(self, old: Tensor, new: Tensor) -> Tensor:
        (old_mean, old_log_std), (mean, log_std) = old.chunk(2, -1), new.chunk(2, -1)
        by_mean = (mean - old_mean) * torch.exp(-2 * log_std)
        by_log_std = 1 - torch.exp(2 * (old_log_std - log_std)) - (mean - old_mean) * by_mean
        return torch.cat([by_mean, by_log_std], -1)


class Categorical:
    """Parameters [n, N], logits; actions int64 [n]."""

    def masked(self, params: Tensor, available: Tensor) -> Tensor:
        return torch.where(available, params, UNAVAILABLE)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return params.log_softmax(-1).gather(-1, actions[:, None])[:, 0]

    def entropy(self, params: Tensor) -> Tensor:
        return -(params.softmax(-1) * params.log_softmax(-1)).sum(-1)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        return (old.softmax(-1) * (old.log_softmax(-1) - new.log_softmax(-1))).sum(-1)

    def grad_log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return -params.softmax(-1).scatter_add(-1, actions[:, None], -torch.ones_like(params[:, :1]))

    def grad_entropy(self, params: Tensor) -> Tensor:
        p, log_p = params.softmax(-1), params.log_softmax(-1)
        return -p * (log_p - (p * log_p).sum(-1, keepdim=True))

    def grad_kl(self, old: Tensor, new: Tensor) -> Tensor:
        return new.softmax(-1) - old.softmax(-1)


class MultiCategorical:
    """Independent categoricals: parameters [n, P], the logits of one after another; actions int64 [n, K].

    Args:
        sizes: the number of values of each.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = list(sizes)
        self._each = Categorical()

    def masked(self, params: Tensor, available: Tensor) -> Tensor:
        return self._each.masked(params, available)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        parts = zip(torch.split(params, self._sizes, -1), actions.unbind(-1), strict=True)
        return torch.stack([self._each.log_prob(part, action) for part, action in parts]).sum(0)

    def entropy(self, params: Tensor) -> Tensor:
        return torch.stack([self._each.entropy(part) for part in torch.split(params, self._sizes, -1)]).sum(0)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.stack([self._each.kl(*parts) for parts in self._split(old, new)]).sum(0)

    def grad_log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        parts = zip(torch.split(params, self._sizes, -1), actions.unbind(-1), strict=True)
        return torch.cat([self._each.grad_log_prob(part, action) for part, action in parts], -1)

    def grad_entropy(self, params: Tensor) -> Tensor:
        return torch.cat([self._each.grad_entropy(part) for part in torch.split(params, self._sizes, -1)], -1)

    def grad_kl(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([self._each.grad_kl(*parts) for parts in self._split(old, new)], -1)

    def _split(self, old: Tensor, new: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(torch.split(old, self._sizes, -1), torch.split(new, self._sizes, -1), strict=True)


class Bernoulli:
    """Independent bits: parameters [n, M], logits of 1; actions int64 [n, M]."""

    def masked(self, params: Tensor, available: Tensor) -> Tensor:
        may_be_0, may_be_1 = available[..., 0::2], available[..., 1::2]
        return torch.where(may_be_1, torch.where(may_be_0, params, -UNAVAILABLE), UNAVAILABLE)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return (actions * params - softplus(params)).sum(-1)

    def entropy(self, params: Tensor) -> Tensor:
        return (softplus(params) - params.sigmoid() * params).sum(-1)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        return (old.sigmoid() * (old - new) + softplus(new) - softplus(old)).sum(-1)

    def grad_log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        return actions - params.sigmoid()

    def grad_entropy(self, params: Tensor) -> Tensor:
        p = params.sigmoid()
        return -params * p * (1 - p)

    def grad_kl(self, old: Tensor, new: Tensor) -> Tensor:
        return new.sigmoid() - old.sigmoid()


def distribution_of(action: Mapping[str, Any]) -> Distribution:
    """The family of an EnvironmentSpec's action."""
    space = action_space(action)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(space.sizes)
    families: dict[str, Distribution] = {
        "gaussian": Gaussian(),
        "categorical": Categorical(),
        "bernoulli": Bernoulli(),
    }
    return families[space.head]
