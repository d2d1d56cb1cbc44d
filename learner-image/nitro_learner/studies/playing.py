"""Playing a checkpoint's policy in this process: evaluation episodes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nitro_actor import entry_points
from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from nitro_actor.policy import Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import WeightsContainer
from nitro_actor.rollout import evaluate
from nitro_api import JobSpec
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import Checkpoint
from nitro_learner.sampling.evaluation import MAX_STEPS
from nitro_learner.sampling.plans import sums_of_classes
from nitro_learner.sampling.seeds import evaluation_seed

# The slot of evaluations after training: their episodes must differ from those of evaluations in training.
LATER_SLOT = 1_000_000


@dataclass(frozen=True)
class Played:
    """Episodes with mean actions.

    Attributes:
        returns: undiscounted and summed over the agents, f64 [episodes].
        lengths: i64 [episodes].
        agent_means: each agent's mean return.
        class_means: each agent class's mean return, summed over its agents.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    agent_means: Mapping[str, float]
    class_means: Mapping[str, float]


def find_own(spec: JobSpec) -> None:
    """Let Python find the environment's module in the current folder, as actor processes do."""
    if spec.environment.entry_point or ":" in spec.environment.id:
        entry_points.find_here()


def play(spec: JobSpec, checkpoint: Checkpoint, episodes: int) -> Played:
    """Play episodes with the policy of a checkpoint; equal calls give equal episodes.

    Raises:
        EnvironmentConfigError: the environment cannot be made here.
    """
    environment = make_env(config_of(spec, min(episodes, spec.environment.envs_per_actor)))
    try:
        policies = policies_of(spec, checkpoint, environment)
        seed = evaluation_seed(spec.seed, checkpoint.round, LATER_SLOT)
        tensors = evaluate(environment, policies, seed=seed, episodes=episodes, max_steps=MAX_STEPS)
    finally:
        environment.close()
    returns, played = tensors["episode_returns"], environment.spec
    means = dict(zip(played.agents, returns.mean(axis=0).tolist(), strict=True))
    return Played(
        returns.sum(axis=1), tensors["episode_lengths"], means, sums_of_classes(means, played.classes)
    )


def config_of(spec: JobSpec, count: int) -> EnvironmentConfig:
    return EnvironmentConfig.from_json(json.dumps(spec.environment.to_actor() | {"envs": count}))


def policies_of(spec: JobSpec, checkpoint: Checkpoint, environment: Environment) -> Policies:
    """The policies of a checkpoint, as an actor plays them in this environment."""
    learned = registry.make_policies(spec, DescribedEnvironment.from_json(environment.spec.to_json()))
    learned.load_state_dict(checkpoint.state["policies"])
    container = WeightsContainer("", learned.version, learned.weights(), learned.agents)
    return Policies(container, environment.spec.classes)
