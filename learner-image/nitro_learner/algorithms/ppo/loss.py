"""PPO's loss (Schulman et al. 2017; clipped surrogate, adaptive KL penalty), and its gradient.

    L = -E[min(r A, clip(r, 1 - c, 1 + c) A)] + beta E[KL(old || new)] - h E[H] + w E[min((V - G)^2, v)]

with r = pi_new(a | s) / pi_old(a | s). `terms` is the differentiable form, for the detector and for reports;
`gradients` is its gradient by the networks' outputs, for training. A test compares the two.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nitro_learner.data.shapes import check
from nitro_learner.networks.distributions import Distribution


@dataclass(frozen=True, slots=True)
class Coefficients:
    """c, beta, h, w and v of the loss; v = infinity where the value error is not clipped."""

    clip: float
    kl: float
    entropy: float
    value: float
    value_clip: float


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of a batch, with the advantages that the loss sees.

    Attributes:
        observations: f32 [n, D].
        actions: f32 [n, A] or i64 [n].
        log_probs: f32 [n], old.
        distribution: f32 [n, P], old.
        advantages: f32 [n], standardised unless the job says otherwise.
        returns: f32 [n].
        available: bool [n, C], which choices of the actions were allowed; None where they are not masked.

    Raises:
        ValueError: a column has another shape.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    distribution: Tensor
    advantages: Tensor
    returns: Tensor
    available: Tensor | None = None

    def __post_init__(self) -> None:
        rows = self.observations.shape[:1]
        columns = {"log_probs": self.log_probs, "advantages": self.advantages, "returns": self.returns}
        check(rows, "a column of the samples", columns)
        actions, distribution = self.actions.shape, self.distribution.shape
        if actions[:1] != rows or len(actions) > 2:
            raise ValueError(f"actions has the shape {tuple(actions)}, but the samples have {rows[0]} rows")
        if distribution[:1] != rows or len(distribution) != 2:
            raise ValueError(
                f"distribution has the shape {tuple(distribution)}, but the samples have {rows[0]} rows"
            )
        if self.available is not None:
            check(rows, "the rows of the samples", {"available": self.available[:, 0]})

    def __len__(self) -> int:
        return len(self.observations)

    def rows(self, which: Tensor) -> "Samples":
        """Copies of the rows `which`."""
        return self._view(column[which] for column in self.columns())

    def slices(self, size: int) -> list["Samples"]:
        """Views of `size` rows each (the last one fewer)."""
        if len(self) <= size:
            return [self]
        return [
            self._view(columns)
            for columns in zip(*(torch.split(c, size) for c in self.columns()), strict=True)
        ]

    def every(self, step: int, start: int) -> "Samples":
        """Views of rows start, start + step, start + 2 step, ..."""
        return self._view(column[start::step] for column in self.columns())

    def with_advantages(self, advantages: Tensor) -> "Samples":
        if advantages.shape != self.advantages.shape:
            check(self.advantages.shape, "the samples' advantages", {"advantages": advantages})
        before, after = self.columns()[:_ADVANTAGES], self.columns()[_ADVANTAGES + 1 :]
        return self._view((*before, advantages, *after))

    def masked(self, params: Tensor, distribution: Distribution) -> Tensor:
        """A policy's parameters [n, P] for the samples, with their masks."""
        return params if self.available is None else distribution.masked(params, self.available)

    @staticmethod
    def _view(columns: Iterable[Tensor]) -> "Samples":
        """Samples of columns whose shapes are known to fit: a training step makes several."""
        made = object.__new__(Samples)
        object.__setattr__(made, "available", None)
        for field, column in zip(_COLUMNS, columns, strict=False):
            object.__setattr__(made, field, column)
        return made

    def columns(self) -> tuple[Tensor, ...]:
        """All of them in their order; `available` is the last one, where it is there."""
        always = (
            self.observations,
            self.actions,
            self.log_probs,
            self.distribution,
            self.advantages,
            self.returns,
        )
        return always if self.available is None else (*always, self.available)


_COLUMNS = tuple(field.name for field in fields(Samples))
_ADVANTAGES = _COLUMNS.index("advantages")


@dataclass(frozen=True, slots=True)
class Terms:
    """The loss's terms, one value per sample [n]; the formula's E is their mean."""

    surrogate: Tensor
    kl: Tensor
    entropy: Tensor
    value_error: Tensor
    clipped: Tensor

    def loss(self, c: Coefficients) -> Tensor:
        return -self.surrogate + c.kl * self.kl - c.entropy * self.entropy + c.value * self.value_error


def surrogate(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """min(r A, clip(r) A), [n]: maximised."""
    return torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def terms(
    samples: Samples, params: Tensor, values: Tensor, distribution: Distribution, c: Coefficients
) -> Terms:
    """The loss's terms at the new distribution's parameters [n, P] and values [n].

    Raises:
        ValueError: the parameters or the values have another shape.
    """
    if params.shape != samples.distribution.shape or values.shape != samples.returns.shape:
        _refuse(samples, params, values)
    ratio = torch.exp(distribution.log_prob(params, samples.actions) - samples.log_probs)
    return Terms(
        surrogate=surrogate(ratio, samples.advantages, c.clip),
        kl=distribution.kl(samples.distribution, params),
        entropy=distribution.entropy(params),
        value_error=((values - samples.returns) ** 2).clamp(max=c.value_clip),
        clipped=(ratio - 1).abs() > c.clip,
    )


def gradients(
    samples: Samples,
    params: Tensor,
    values: Tensor,
    distribution: Distribution,
    c: Coefficients,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The gradient of scale * sum(loss) by params [n, P] and by values [n].

    Raises:
        ValueError: the parameters or the values have another shape.
    """
    if params.shape != samples.distribution.shape or values.shape != samples.returns.shape:
        _refuse(samples, params, values)
    ratio = torch.exp(distribution.log_prob(params, samples.actions) - samples.log_probs)
    # The clipped branch is constant where it is the smaller one: A > 0 and r > 1 + c, or A < 0 and r < 1 - c.
    free = ratio * samples.advantages <= ratio.clamp(1 - c.clip, 1 + c.clip) * samples.advantages
    by_log_prob = torch.where(free, ratio * samples.advantages, 0.0) * -scale
    by_params = distribution.grad_log_prob(params, samples.actions).mul_(by_log_prob[:, None])
    if c.kl:
        by_params.add_(distribution.grad_kl(samples.distribution, params), alpha=scale * c.kl)
    if c.entropy:
        by_params.add_(distribution.grad_entropy(params), alpha=-scale * c.entropy)
    error = values - samples.returns
    by_values = torch.where(error * error <= c.value_clip, error, 0.0) * (2 * scale * c.value)
    return by_params, by_values


def _refuse(samples: Samples, params: Tensor, values: Tensor) -> None:
    # Only called where a shape is wrong: a call on every gradient step took 1 % of a small network's update.
    check(samples.distribution.shape, "the samples' distribution", {"params": params})
    check(samples.returns.shape, "the samples' returns", {"values": values})
