"""Serving: a trained policy behind HTTP."""
