"""The end state of a fragment's environments, from which the next fragment of the slot goes on.

Its tensors are named `state/NAME` in messages. Only the environment knows their meaning.
"""

from collections.abc import Mapping

import numpy as np

PREFIX = "state/"
OWN_PREFIX = PREFIX + "own/"
"""Prefix of the tensors that a user's own environment keeps; they may hold NaN and infinity."""


def prefixed(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Name a state's tensors as messages do."""
    return {PREFIX + name: array for name, array in state.items()}


def bare(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take the state out of a message's tensors, without the prefix."""
    return {name.removeprefix(PREFIX): array for name, array in tensors.items() if name.startswith(PREFIX)}
