"""Where actors run: one module for each value of spec.backend.type."""

from nitro_api import JobSpec
from nitro_operator.backends.base import ActorBackend
from nitro_operator.backends.knative import KnativeActors
from nitro_operator.backends.local import LocalActors
from nitro_operator.backends.release import KnativeRelease

__all__ = ["ActorBackend", "KnativeRelease", "backend_of"]


def backend_of(spec: JobSpec, release: KnativeRelease) -> ActorBackend:
    """The backend that a job names."""
    return LocalActors() if spec.backend.type == "Local" else KnativeActors(release)
