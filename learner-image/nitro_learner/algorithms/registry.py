"""Learning algorithms: `make_policies` builds what a job learns."""

from importlib import import_module
from typing import Any

from nitro_api import JobSpec
from nitro_api.algorithms.record import Feeding
from nitro_learner.algorithms.base import Algorithm, JointLearner, OffPolicyAlgorithm, OnPolicyAlgorithm
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.algorithms.rllib import availability

ALGORITHMS = {
    "ppo": "ppo.learning:Ppo",
    "impact": "impact.learning:Impact",
    "rllib/ppo": "rllib.ppo:RllibPpo",
    "rllib/appo": "rllib.impala:RllibAppo",
    "rllib/impala": "rllib.impala:RllibImpala",
}
"""The class that learns, by spec.algorithm.name: its module in this folder, and its name there."""

_PROTOCOLS: dict[Feeding, Any] = {"rounds": OnPolicyAlgorithm, "arrivals": OffPolicyAlgorithm}


def make(spec: JobSpec, environment: dict[str, Any], device: str = "cpu") -> Algorithm | JointLearner:
    """What learns for a resolved job: an algorithm of one policy, or a `JointLearner`.

    Args:
        spec: resolved: every hyperparameter is set.
        environment: the actors' EnvironmentSpec, as GET /v1/spec returns it.
        device: a torch device.

    Raises:
        JobInvalid: the algorithm is RLlib's, which is not installed or refuses the job's settings.
        TypeError: the class does not implement what its record's feeding asks for.
    """
    availability.check(spec)
    module, _, name = ALGORITHMS[spec.algorithm.name].partition(":")
    # Imported only now: RLlib's take seconds, and are not installed everywhere.
    algorithm: Algorithm | JointLearner = getattr(import_module(f"nitro_learner.algorithms.{module}"), name)(
        spec, environment, device
    )
    feeding = spec.algorithm.record.feeding
    fits = isinstance(algorithm, _PROTOCOLS[feeding])
    if not fits:
        raise TypeError(
            f"{spec.algorithm.name} is fed by {feeding}, but is no {_PROTOCOLS[feeding].__name__}"
        )
    return algorithm


def make_policies(spec: JobSpec, environment: dict[str, Any], device: str = "cpu") -> PolicySet:
    """The policies of a resolved job, with what learns them. Arguments and errors as `make`."""
    learner, feeding = make(spec, environment, device), spec.algorithm.record.feeding
    if isinstance(learner, JointLearner):
        return PolicySet([learner], learner.agents, feeding)
    return PolicySet.of_one(learner, feeding)
