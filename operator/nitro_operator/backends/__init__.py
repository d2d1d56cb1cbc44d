"""The ways to run actors: one module for each value of spec.backend.type."""

from nitro_api import JobSpec
from nitro_operator.backends.base import ActorDeployment
from nitro_operator.backends.knative import KnativeDeployment
from nitro_operator.backends.lambda_actors import LambdaDeployment
from nitro_operator.backends.local import LocalDeployment
from nitro_operator.backends.release import KnativeRelease
from nitro_operator.functions.state import FunctionState

__all__ = ["ActorDeployment", "KnativeRelease", "deployment_of"]


def deployment_of(spec: JobSpec, release: KnativeRelease, function: FunctionState) -> ActorDeployment:
    """The way to run actors that a job names."""
    if spec.backend.lambda_ is not None:
        return LambdaDeployment(spec.backend.lambda_, function, spec.pricing)
    return (
        LocalDeployment() if spec.backend.type == "Local" else KnativeDeployment(release, spec.actor.per_pod)
    )
