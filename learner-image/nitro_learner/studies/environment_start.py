"""What the start of a training would say of a job's environment: it is built and checked in its own process.

Only the environment itself knows whether its arguments are right, which spaces it has and who plays in it.
Where the actors run in pods that differ from this machine, what is found here is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_learner.run.check_listener import EnvironmentCheck
from nitro_learner.run.checking import job_fit
from nitro_learner.studies import environment_ids, own_start

if TYPE_CHECKING:
    from nitro_learner.run.checking.report import Report

CHECK_SECONDS = 10.0
"""The longest time for the check itself; of a sound and fast environment it takes one."""


@dataclass
class Notes:
    """What does not make a job invalid, each a sentence.

    Attributes:
        warnings: of what may be wrong.
        remarks: on style.
    """

    warnings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def check(spec: JobSpec, *, elsewhere: bool = False) -> Notes:
    """Build and check a resolved job's environment, and see whether the job fits it.

    Args:
        elsewhere: whether the actors run on another machine, so that this one may lack a package.

    Raises:
        JobInvalid: the environment cannot be used, has a fault, or does not fit the job.
    """
    if environment_ids.doubts(spec):  # the actors' image may have what this machine has not
        return Notes()
    report = EnvironmentCheck(spec.environment, CHECK_SECONDS).final_report()
    path, value = named(spec)
    of_cluster, elsewhere = elsewhere, elsewhere or own_pods(spec)
    if report.environment is None:
        if elsewhere:
            return Notes([f"{path}: on this machine {report.error}"])
        raise JobInvalid([FieldError(path, value, report.error)])
    _fit(spec, report.environment)
    own_network = own_start.check_network(spec, report.environment, elsewhere=of_cluster)
    if report.faults and not elsewhere:
        raise JobInvalid([FieldError(path, value, fault) for fault in report.faults])
    told = [*(f"on this machine {fault}" for fault in report.faults), *report.warnings, *report.gaps()]
    fits = job_fit.warnings(report.environment, spec)
    return Notes(
        [*(f"{path}: {text}" for text in told), *fits, *own_network],
        [f"{path}: {text}" for text in report.remarks],
    )


def examined(spec: JobSpec, seconds: float) -> Report:
    """What a check of a resolved job's environment finds in so many seconds, and how it fits the job."""
    report = EnvironmentCheck(spec.environment, seconds).final_report()
    if report.environment is not None:
        try:
            _fit(spec, report.environment)
        except JobInvalid as error:
            report.faults += [str(item) for item in error.errors]
        report.warnings += job_fit.warnings(report.environment, spec)
    return report


def named(spec: JobSpec) -> tuple[str, str | None]:
    """The field that names the environment, and its value."""
    environment = spec.environment
    name = "id" if environment.entry_point is None else "entryPoint"
    return f"spec.environment.{name}", environment.entry_point or environment.id


def own_pods(spec: JobSpec) -> bool:
    """Whether the actors' pods have what this machine may not have: an image, files or variables of the
    job's own."""
    function, actor = spec.backend.lambda_, spec.actor
    own_function = function is not None and function.image is not None
    return bool(actor.image or actor.volumes or actor.env or own_function)


def _fit(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Raise JobInvalid where the job does not fit the environment."""
    from nitro_learner.algorithms import fits  # needs numpy, which takes long to load

    fits.check(spec, environment)
    if spec.network.type == "conv" and not environment.several:
        from nitro_learner.networks.architecture import NetworkMisfit, network_of  # loads torch

        try:
            network_of(spec.network, environment.only_class, spec.environment.id)
        except NetworkMisfit as error:
            path, _, message = str(error).partition(" ")
            raise JobInvalid([FieldError(path.rstrip(":"), spec.network.type, message)]) from None
