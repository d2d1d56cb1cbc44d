"""Rules across fields, in CEL. Importing the package declares them."""

from nitro_api.rules import (  # noqa: F401
    agents_rules,
    algorithm_rules,
    cache_rules,
    job_rules,
    lambda_rules,
    network_rules,
    pod_rules,
    pricing_rules,
    recurrent_rules,
    resume_rules,
    scaling_rules,
)
