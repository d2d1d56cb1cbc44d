"""Learning algorithms: `make` builds the one a job names."""

from typing import Any

from nitro_api import JobSpec
from nitro_learner.algorithms.base import Algorithm, UpdateResult
from nitro_learner.algorithms.ppo import Ppo

ALGORITHMS = {"ppo": Ppo}
"""By spec.algorithm.name."""


def make(spec: JobSpec, environment: dict[str, Any], device: str = "cpu") -> Algorithm:
    """The algorithm of a resolved job.

    Args:
        spec: resolved: every hyperparameter is set.
        environment: the actors' EnvironmentSpec, as GET /v1/spec returns it.
        device: a torch device.
    """
    return ALGORITHMS[spec.algorithm.name](spec, environment, device)


__all__ = ["ALGORITHMS", "Algorithm", "Ppo", "UpdateResult", "make"]
