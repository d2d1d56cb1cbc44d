"""Engines: each steps the E copies of one environment together."""
