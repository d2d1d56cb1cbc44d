"""The record of each learning algorithm: its settings, presets and rules, without its code."""
