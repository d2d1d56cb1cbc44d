"""The gradient of PPO's loss, by hand."""

from dataclasses import dataclass

import torch

from nitro_learner.algorithms.gradient import Gradient
from nitro_learner.algorithms.ppo.loss import Coefficients, Samples, gradients
from nitro_learner.networks.actor_critic import ActorCritic
from nitro_learner.networks.distributions import Distribution


@dataclass(frozen=True, slots=True)
class PpoGradient:
    """A function of weights and minibatch alone: equal ones give equal gradients, and neither changes.

    The backward pass is by hand, and takes a third to three quarters of autograd's time
    (tests/benchmarks/bench_learner.py).

    Attributes:
        distribution: of the actions.
        coefficients: of the loss.
        chunk: rows of one forward and backward pass; the gradient is summed over chunks.
    """

    distribution: Distribution
    coefficients: Coefficients
    chunk: int

    @torch.no_grad()
    def __call__(self, network: ActorCritic, minibatch: Samples) -> Gradient:
        """Return the gradient of the minibatch's mean loss at the network's present weights."""
        grad = network.flat.grad
        assert grad is not None
        grad.zero_()
        for chunk in minibatch.slices(self.chunk):
            policy, critic = (
                network.policy.trace(chunk.observations),
                network.critic.trace(chunk.observations),
            )
            by_params, by_values = gradients(
                chunk,
                chunk.masked(network.policy.distribution(policy), self.distribution),
                critic[-1][:, 0],
                self.distribution,
                self.coefficients,
                scale=1 / len(minibatch),
            )
            network.policy.backpropagate(policy, by_params)
            network.critic.backpropagate(critic, by_values[:, None])
        return Gradient(grad)
