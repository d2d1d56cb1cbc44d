"""Environments of several agents: engines, episodes and sampling. Actors of one agent do not import it."""
