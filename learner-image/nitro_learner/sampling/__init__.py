"""Sampling: from a round's plan to its fragments."""
