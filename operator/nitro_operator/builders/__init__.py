"""Pure functions from a job to the objects that run it: no input or output, so plain asserts test them."""

from nitro_operator.builders.actors import actor_service
from nitro_operator.builders.credentials import credentials_secret
from nitro_operator.builders.learner import learner_job
from nitro_operator.builders.network import network_policies, redis_service
from nitro_operator.builders.rbac import learner_access
from nitro_operator.builders.storage import checkpoint_claim
from nitro_operator.builders.view import JobView

__all__ = [
    "JobView",
    "actor_service",
    "checkpoint_claim",
    "credentials_secret",
    "learner_access",
    "learner_job",
    "network_policies",
    "redis_service",
]
