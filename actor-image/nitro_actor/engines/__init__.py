"""Engines: E copies of one environment that are stepped together."""
