"""Checkpoint files: written in one step, checked when they are read."""
