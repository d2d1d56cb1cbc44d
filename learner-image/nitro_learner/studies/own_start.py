"""What the start of a training would say of the user's own algorithm, scaler and network: they are made."""

from collections.abc import Sequence

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid, JobSpec
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
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
    return _told(spec, errors, elsewhere=elsewhere)


def check_network(spec: JobSpec, environment: DescribedEnvironment, *, elsewhere: bool = False) -> list[str]:
    """Make, try and export the networks of a resolved job, if they are the user's own.

    Args:
        environment: of the actors.
        elsewhere: whether the learner runs on another machine, so that this one may lack a package.

    Returns:
        Warnings.

    Raises:
        JobInvalid: they cannot be made, or cannot be a policy's network and its critic.
    """
    settings = spec.algorithm.hyperparameters
    if spec.network.entry_point is None or not isinstance(settings, ActorCriticHyperparameters):
        return []
    from nitro_learner.networks.own.actor_critic import OwnActorCritic  # loads torch

    normalised = settings.normalise_observations
    try:
        OwnActorCritic(spec.network, environment.only_class, normalised=normalised)
    except JobInvalid as error:
        return _told(spec, error.errors, elsewhere=elsewhere)
    return []


def _told(spec: JobSpec, errors: Sequence[FieldError], *, elsewhere: bool) -> list[str]:
    """Raise the mistakes, or return them as warnings where the learner may have what this machine lacks."""
    learner = spec.learner
    if errors and not (elsewhere or learner.image or learner.volumes or learner.env):
        raise JobInvalid(list(errors))
    return [f"{item.path}: on this machine {item.message}" for item in errors]


def _check_algorithm(spec: JobSpec) -> None:
    from nitro_learner import scalers  # loads torch
    from nitro_learner.algorithms import registry

    registry.load_own(spec, scalers.make(spec).needs)


def _check_scaler(spec: JobSpec) -> None:
    from nitro_learner import scalers  # loads torch

    scalers.make(spec)
