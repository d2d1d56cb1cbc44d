"""Experiments: variants of a job over seeds at a matched budget, trained by `nitro train` and compared."""
