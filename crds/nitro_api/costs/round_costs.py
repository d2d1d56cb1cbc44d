"""What a round costs by a job's prices: c0 whatever its actors, c1 for each of them."""

from dataclasses import dataclass
from typing import Self

from nitro_api.costs.prices import serverless_cost, vm_cost
from nitro_api.spec.job import JobSpec

_ROUND_SECONDS = 0.1
"""Seconds of a round apart from sampling and update."""
_ACTOR_SECONDS = 0.05
"""Seconds of an invocation apart from its steps."""
_STEP_SECONDS = {"mlp": 1.2e-4, "conv": 6e-4, "own": 1.2e-4}
"""Seconds of an environment step with its policy, by type of network: Hopper's and SpaceInvaders'."""
_SAMPLE_SECONDS = {"mlp": 6.3e-6, "conv": 9e-4, "own": 6.3e-6}
"""Seconds of one sample in one epoch of PPO's update on one core."""
_GPU_STEP_SECONDS = {"mlp": 1.4e-3, "conv": 4e-3, "own": 1.4e-3}
"""Seconds of one gradient step on a GPU (an H200), whatever its samples: most of it goes to starting the
kernels. docs/performance.md has the measurements; of images only minibatches of 256 were measured."""
_MOST = 1e6


@dataclass(frozen=True, slots=True)
class ModelledCosts:
    """A round's cost by the job's prices, in US dollars.

    Actors sample beside each other and are invocations on demand, or machines with `pricing.model: vm`.
    Seconds are those of the machines of docs/performance.md, in every run, so that the same job decides alike
    on every machine.

    Attributes:
        base: c0.
        actor: c1.
    """

    base: float
    actor: float

    @classmethod
    def of(cls, spec: JobSpec) -> Self:
        """The costs of the rounds of a resolved job whose algorithm is `ppo`."""
        one_actor, two_actors = _dollars(spec, 1), _dollars(spec, 2)
        return cls(2 * one_actor - two_actors, two_actors - one_actor)

    @property
    def ratio(self) -> float:
        """K = c0 / c1. Unit: actors."""
        return min(self.base / self.actor, _MOST) if self.actor > 0 else _MOST


def cost_ratio(spec: JobSpec) -> float:
    """The K of a resolved job with scaler `efficient`: its own, otherwise the modelled one. Unit: actors."""
    given = spec.scaling.cost_ratio
    return ModelledCosts.of(spec).ratio if given is None else given


def _dollars(spec: JobSpec, actors: int) -> float:
    """The modelled cost of a round of so many actors."""
    steps, kind = spec.environment.rollout_length, spec.network.type
    actor_seconds = _ACTOR_SECONDS + steps * _STEP_SECONDS[kind]
    seconds = _ROUND_SECONDS + actor_seconds + _update_seconds(spec, actors * steps)
    if spec.pricing.model == "vm":
        return vm_cost(spec.pricing, seconds).total
    return serverless_cost(spec.pricing, seconds, [actor_seconds] * actors).total


def _update_seconds(spec: JobSpec, samples: int) -> float:
    """The modelled seconds of PPO's update of so many samples."""
    hyperparameters, kind = spec.algorithm.hyperparameters.to_dict(), spec.network.type
    epochs, minibatch = hyperparameters["epochs"], hyperparameters["minibatchSize"]
    if spec.learner.asks_for_gpu:
        return float(epochs * (samples / minibatch if minibatch else 1) * _GPU_STEP_SECONDS[kind])
    return float(epochs * samples * _SAMPLE_SECONDS[kind])
