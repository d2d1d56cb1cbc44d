"""PPO's loss (Schulman et al. 2017; clipped surrogate, adaptive KL penalty), and its gradient.

    L = -E[min(r A, clip(r, 1 - c, 1 + c) A)] + beta E[KL(old || new)] - h E[H] + w E[min((V - G)^2, v)]

with r = pi_new(a | s) / pi_old(a | s). `terms` is the differentiable form, for the detector and for reports;
`gradients` is its gradient by the networks' outputs, and `gradient` by their parameters, for training. A test
compares them. Policies that train stacked have one loss each, over samples of agents that acted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.samples import Samples, acted_in
from nitro_learner.data.shapes import check
from nitro_learner.networks.actor_critic import ActorCritic, Bound
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


@torch.no_grad()
def gradient(
    network: ActorCritic,
    theta: Bound,
    parts: Sequence[Samples],
    c: Coefficients,
    into: Bound,
    penalties: Tensor | None = None,
) -> None:
    """Add the gradient of each policy's mean loss by its parameters to `into`.

    The backward pass is by hand, and takes a third to three quarters of autograd's time
    (tests/benchmarks/bench_learner.py).

    Args:
        network: the policies' shape.
        theta: their parameters; not changed.
        parts: the samples, in parts that are passed through the networks one after another.
        c: of the loss.
        into: the gradients.
        penalties: weights of each policy's KL penalty, f32 [P], beside that of `c`.
    """
    acted = acted_in(parts)
    scale = 1 / sum(part.size for part in parts) if parts[0].weights is None else 1.0
    for part in parts:
        trace = network.trace(theta, part.observations, part.critic_inputs, part.available)
        params = trace.distribution
        by_params, by_values = gradients(part, params, trace.values, network.family, c, scale)
        if penalties is not None:
            by_kl = network.family.grad_kl(part.distribution, params)
            by_params.add_(by_kl * penalties.repeat_interleave(part.size)[:, None], alpha=scale)
        if part.weights is not None:
            weights = (part.stacked(part.weights) / acted).flatten()
            by_params, by_values = by_params.mul_(weights[:, None]), by_values.mul_(weights)
        network.backpropagate(theta, trace, by_params, by_values, into)


@torch.no_grad()
def loss_terms(
    network: ActorCritic, theta: Bound, parts: Sequence[Samples], c: Coefficients
) -> list[dict[str, float]]:
    """Means of the loss's terms over each policy's samples of agents that acted: policy_loss, value_loss,
    entropy, kl, clip_fraction. Arguments as `gradient`."""

    def terms_of(part: Samples) -> Terms:
        params = network.traced_distribution(theta, part.observations, part.available)
        return terms(part, params, network.traced_values(theta, part.critic_inputs), network.family, c)

    return means([(part, terms_of(part)) for part in parts])


def means(parts: Sequence[tuple[Samples, Terms]]) -> list[dict[str, float]]:
    """Means of the loss's terms over each policy's samples of agents that acted."""
    sums = torch.zeros(5, parts[0][0].policies, dtype=torch.float64)
    for part, t in parts:
        columns = [-t.surrogate, t.value_error, t.entropy, t.kl, t.clipped]
        if part.weights is not None:
            columns = [column * part.weights for column in columns]
        sums += torch.stack([part.stacked(column).sum(1, dtype=torch.float64) for column in columns]).cpu()
    averages = sums / acted_in([part for part, _ in parts])[:, 0].cpu()
    names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
    return [dict(zip(names, column.tolist(), strict=True)) for column in averages.T]


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns): 1 for a perfect critic, 0 for one that explains nothing.

    Raises:
        ValueError: the tensors differ in shape.
    """
    check(returns.shape, "returns", {"values": values})
    unexplained = (returns - values).var(correction=0) / returns.var(correction=0).clamp(min=1e-12)
    return 1 - unexplained.item()
