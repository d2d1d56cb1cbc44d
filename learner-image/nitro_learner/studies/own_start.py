"""What the start of a training would say of the user's own algorithm and scaler: they are loaded here."""

from nitro_api import JobInvalid, JobSpec
from nitro_api.errors import FieldError


def check(spec: JobSpec, *, elsewhere: bool = False) -> list[str]:
    """Load what is the user's own in a resolved job, and make it as far as no environment is needed.

    Args:
        elsewhere: whether the learner runs on another machine, so that this one may lack a package.

    Returns:
        Warnings.

    Raises:
        JobInvalid: something of it cannot be loaded or made.
    """
    errors: list[FieldError] = []
    for own, check_one in (
        (spec.algorithm.entry_point, _check_algorithm),
        (spec.scaling.entry_point, _check_scaler),
    ):
        try:
            if own is not None:
                check_one(spec)
        except JobInvalid as error:
            errors += error.errors
    learner = spec.learner
    if errors and not (elsewhere or learner.image or learner.volumes or learner.env):
        raise JobInvalid(errors)
    return [f"{item.path}: on this machine {item.message}" for item in errors]


def _check_algorithm(spec: JobSpec) -> None:
    from nitro_learner.algorithms import registry  # loads torch

    registry.load_own(spec)


def _check_scaler(spec: JobSpec) -> None:
    from nitro_learner import scalers  # loads torch

    scalers.make(spec)
