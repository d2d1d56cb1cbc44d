"""Replay: what algorithms share that learn from a buffer of transitions."""
