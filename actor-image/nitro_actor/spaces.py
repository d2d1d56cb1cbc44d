"""The spaces of a gymnasium environment, as far as policies can play in them."""

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor.config import EnvironmentConfigError

_OBSERVATIONS = (
    "observation space {} is not supported; it must be a Box of floats or uint8. Wrap the environment"
)
_ACTIONS = "action space {} is not supported; it must be a Box of floats or Discrete. Wrap the environment"


class Actions(NamedTuple):
    """An action space.

    Attributes:
        size: A for continuous actions, the number of actions for discrete ones.
        low, high: f32 [A], None for discrete actions.
    """

    size: int
    low: NDArray[np.float32] | None
    high: NDArray[np.float32] | None


def observation_dtype(space: Any, how: str) -> str:
    """The dtype in which observations are sent, float32 or uint8.

    Args:
        how: the end of the sentence "Wrap the environment", for an error.

    Raises:
        EnvironmentConfigError: policies cannot use such observations.
    """
    if isinstance(space, gymnasium.spaces.Box):
        if space.dtype == np.uint8:
            return "uint8"
        if np.issubdtype(space.dtype, np.floating):
            return "float32"
    raise EnvironmentConfigError(f"{_OBSERVATIONS.format(space)}{how}")


def actions(space: Any, how: str) -> Actions:
    """Read an action space. Arguments and errors as `observation_dtype`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Actions(int(space.n), None, None)
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (np.asarray(bound, np.float32).reshape(-1) for bound in (space.low, space.high))
        return Actions(math.prod(space.shape), low, high)
    raise EnvironmentConfigError(f"{_ACTIONS.format(space)}{how}")


def native_action(space: Any, action: np.ndarray) -> Any:
    """Convert an action, i64 counted from 0 or f32 [A] within the bounds, to the space's own form."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action) + int(space.start)
    assert isinstance(space, gymnasium.spaces.Box)
    action = action.astype(space.dtype).reshape(space.shape)
    if action.dtype == np.float32:
        return action
    # It came within the bounds as float32, which may lie outside of them.
    return np.minimum(np.maximum(action, space.low), space.high)
