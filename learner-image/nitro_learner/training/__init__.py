"""The training loop: rounds, scoring, stop conditions, billing and the state between two rounds."""
