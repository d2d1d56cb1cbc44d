"""Which trackers a job has, and whether they are installed."""

from importlib import metadata

from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.errors import ABSENT, installing

_PACKAGES = {"wandb": "wandb", "mlflow": "mlflow-skinny"}
"""The package that each tracker needs. The extra of the learner that brings it has the tracker's name."""


def trackers_of(spec: JobSpec) -> list[str]:
    """Names of the trackers that the job has."""
    return list(spec.tracking.to_dict()) if spec.tracking else []


def check_installed(spec: JobSpec) -> None:
    """Make sure that the trackers of a job are installed here.

    Raises:
        JobInvalid: names those that are not, and what to install.
    """
    if mistakes := not_installed(spec):
        raise JobInvalid(mistakes)


def not_installed(spec: JobSpec) -> list[FieldError]:
    """The trackers of a job that are not installed here, each with what to install."""
    mistakes = []
    for tracker in trackers_of(spec):
        try:
            metadata.version(_PACKAGES[tracker])
        except metadata.PackageNotFoundError:
            remedy = (
                f"needs the package {_PACKAGES[tracker]}, which is not installed; "
                f"{installing('train', tracker)}, on a cluster use a learner image that was built with "
                f"--build-arg EXTRAS={tracker}"
            )
            mistakes.append(FieldError(f"spec.tracking.{tracker}", ABSENT, remedy))
    return mistakes
