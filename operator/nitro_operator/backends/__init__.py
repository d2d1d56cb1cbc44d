"""Where actors run: one module for each value of spec.backend.type."""

from nitro_api import JobSpec
from nitro_operator.backends.base import ActorBackend
from nitro_operator.backends.knative import KnativeActors
from nitro_operator.backends.lambda_actors import LambdaActors
from nitro_operator.backends.local import LocalActors
from nitro_operator.backends.release import KnativeRelease
from nitro_operator.functions.state import FunctionState

__all__ = ["ActorBackend", "KnativeRelease", "backend_of"]


def backend_of(spec: JobSpec, release: KnativeRelease, function: FunctionState) -> ActorBackend:
    """The backend that a job names."""
    if spec.backend.lambda_ is not None:
        return LambdaActors(spec.backend.lambda_, function)
    return LocalActors() if spec.backend.type == "Local" else KnativeActors(release)
