"""Experiment trackers: each records a run from its folder, in a process of its own."""
