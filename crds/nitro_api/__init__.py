"""The NitroTrainingJob API: typed models, validation, prices and the cost ledger.

For example:

    job = resolve(load_job("job.yaml", ["spec.seed=3"]))  # with every default; JobInvalid says what is wrong
    job.spec.scaling.max_actors
    job.to_yaml()
"""

from nitro_api.costs.ledger import Ledger
from nitro_api.costs.prices import RoundCost
from nitro_api.errors import FieldError, JobInvalid
from nitro_api.loading.job_file import load_job, resolve_stored
from nitro_api.resolution.resolve import resolve
from nitro_api.resolution.warnings import warnings
from nitro_api.spec.job import (
    GROUP,
    KIND,
    PLURAL,
    PROTOCOL_VERSION,
    VERSION,
    JobSpec,
    NitroTrainingJob,
    ResolvedJob,
)
from nitro_api.spec.status import JobStatus

__all__ = [
    "GROUP",
    "KIND",
    "PLURAL",
    "PROTOCOL_VERSION",
    "VERSION",
    "FieldError",
    "JobInvalid",
    "JobSpec",
    "JobStatus",
    "Ledger",
    "NitroTrainingJob",
    "ResolvedJob",
    "RoundCost",
    "load_job",
    "resolve",
    "resolve_stored",
    "warnings",
]
