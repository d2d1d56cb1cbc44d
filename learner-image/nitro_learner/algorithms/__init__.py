"""Learning algorithms: `make` builds the one a job names."""

from typing import Any

from nitro_api import JobSpec
from nitro_learner import extras
from nitro_learner.algorithms.base import Algorithm, UpdateResult
from nitro_learner.algorithms.impact import Impact
from nitro_learner.algorithms.ppo import Ppo

ALGORITHMS: dict[str, type[Impact] | type[Ppo]] = {"impact": Impact, "ppo": Ppo}
"""Ours, by spec.algorithm.name."""


def make(spec: JobSpec, environment: dict[str, Any], device: str = "cpu") -> Algorithm:
    """The algorithm of a resolved job.

    Args:
        spec: resolved: every hyperparameter is set.
        environment: the actors' EnvironmentSpec, as GET /v1/spec returns it.
        device: a torch device.

    Raises:
        JobInvalid: the algorithm is RLlib's, which is not installed or refuses the job's settings.
    """
    if spec.algorithm.name.startswith(extras.RLLIB):
        extras.check(spec)
        from nitro_learner.algorithms.rllib import registry

        algorithm: Algorithm = registry.ALGORITHMS[spec.algorithm.name](spec, environment, device)
        return algorithm
    return ALGORITHMS[spec.algorithm.name](spec, environment, device)


__all__ = ["ALGORITHMS", "Algorithm", "Impact", "Ppo", "UpdateResult", "make"]
