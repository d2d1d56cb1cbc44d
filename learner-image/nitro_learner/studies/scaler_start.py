"""What the start of a training would say of a user's own scaler: its class is loaded and made here."""

from nitro_api import JobInvalid, JobSpec


def check(spec: JobSpec, *, elsewhere: bool = False) -> list[str]:
    """Make the scaler of a resolved job, if it is the user's own.

    Args:
        elsewhere: whether the learner runs on another machine, so that this one may lack a package.

    Returns:
        Warnings.

    Raises:
        JobInvalid: the scaler cannot be made.
    """
    if spec.scaling.entry_point is None:
        return []
    from nitro_learner import scalers  # loads torch

    learner = spec.learner
    try:
        scalers.make(spec)
    except JobInvalid as error:
        if elsewhere or learner.image or learner.volumes or learner.env:
            return [f"{item.path}: on this machine {item.message}" for item in error.errors]
        raise
    return []
