"""The ways to run actors: one module for each value of spec.backend.type."""

from nitro_api import JobSpec
from nitro_operator.backends.base import ActorDeployment
from nitro_operator.backends.knative import KnativeDeployment
from nitro_operator.backends.lambda_actors import LambdaDeployment
from nitro_operator.backends.local import LocalDeployment
from nitro_operator.backends.release import KnativeRelease
from nitro_operator.functions.state import FunctionState
from nitro_operator.observation.observed import Observed, actors_of

__all__ = ["ActorDeployment", "KnativeRelease", "deployment_of", "unread_deployment"]


def deployment_of(spec: JobSpec, release: KnativeRelease, function: FunctionState) -> ActorDeployment:
    """The way to run actors that a job names."""
    if spec.backend.lambda_ is not None:
        return LambdaDeployment(spec.backend.lambda_, function, spec.pricing)
    return (
        LocalDeployment() if spec.backend.type == "Local" else KnativeDeployment(release, spec.actor.per_pod)
    )


def unread_deployment(observed: Observed, release: KnativeRelease) -> ActorDeployment | None:
    """The actors of a job whose spec cannot be read; None if it has none in the cluster."""
    revision = observed.revision
    return KnativeDeployment(release, actors_of(revision)) if revision is not None else None
