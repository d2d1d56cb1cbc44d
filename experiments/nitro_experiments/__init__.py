"""Experiments with Nitro: variants of a job, trained over several seeds with an equal budget, and compared.

They are subcommands of `nitro`, which has them where this package is installed.
"""
