"""Rules across fields, in CEL for the API server and in Python. Importing the package declares them."""

from nitro_api.rules import algorithm_rules, job_rules, lambda_rules, network_rules, scaling_rules

__all__ = ["algorithm_rules", "job_rules", "lambda_rules", "network_rules", "scaling_rules"]
