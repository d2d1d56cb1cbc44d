"""The NitroTrainingJob API: typed models, validation, prices and the cost ledger.

job = resolve(load_job("job.yaml", ["spec.seed=3"])) # every default filled in; JobInvalid says what is wrong
job.spec.scaling.max_actors job.to_yaml()
"""

from nitro_api import algorithm_rules as _algorithm_rules  # noqa: F401  (declare the rules that the models obey)
from nitro_api import lambda_rules as _lambda_rules  # noqa: F401
from nitro_api import network_rules as _network_rules  # noqa: F401
from nitro_api import rules as _rules  # noqa: F401
from nitro_api import scaling_rules as _scaling_rules  # noqa: F401
from nitro_api.errors import FieldError, JobInvalid
from nitro_api.job import GROUP, KIND, PLURAL, PROTOCOL_VERSION, VERSION, JobSpec, NitroTrainingJob
from nitro_api.ledger import Ledger
from nitro_api.loading import load_job, resolve_stored
from nitro_api.prices import RoundCost
from nitro_api.resolution import resolve, warnings
from nitro_api.rules import check_update
from nitro_api.status import JobStatus

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
    "RoundCost",
    "check_update",
    "load_job",
    "resolve",
    "resolve_stored",
    "warnings",
]
