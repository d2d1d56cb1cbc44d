"""Rules across fields, in CEL. Importing the package declares them."""

from nitro_api.rules import (
    agents_rules,
    algorithm_rules,
    cache_rules,
    job_rules,
    lambda_rules,
    network_rules,
    placement_rules,
    pod_rules,
    pricing_rules,
    recurrent_rules,
    resource_rules,
    resume_rules,
    scaling_rules,
    tracking_rules,
)

__all__ = [
    "agents_rules",
    "algorithm_rules",
    "cache_rules",
    "job_rules",
    "lambda_rules",
    "network_rules",
    "placement_rules",
    "pod_rules",
    "pricing_rules",
    "recurrent_rules",
    "resource_rules",
    "resume_rules",
    "scaling_rules",
    "tracking_rules",
]
