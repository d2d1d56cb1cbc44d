"""Experiments: variants of a job, trained over several seeds with an equal budget, and compared."""
