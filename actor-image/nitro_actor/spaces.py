"""The spaces of a gymnasium environment, as far as policies can play in them.

Observations are a Box, of uint8 or taken as floats, or become a Box of floats by gymnasium's
`FlattenObservation`: Dict and Tuple spaces of numbers, and Discrete, MultiDiscrete and MultiBinary spaces.
Actions are a Box of floats, Discrete, MultiDiscrete or MultiBinary.
"""

import math
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from nitro_actor import actions as arrays
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.wire import EXACT_IN_FLOAT32

MOST_FLAT = 100_000
"""Numbers of a flattened observation, and a policy's outputs for an action, at most. Discrete ones have as
many as they have values."""


def observation_dtype(space: Any, how: str) -> str:
    """The dtype in which observations are sent, float32 or uint8.

    Args:
        how: the end of the sentence "Wrap the environment", for an error.

    Raises:
        EnvironmentConfigError: policies cannot use such observations.
    """
    if isinstance(space, Box):
        _require_numbers("observation", space, ", such as a constant 0")
        if space.dtype == np.uint8:
            return "uint8"
        return "float32"  # whole numbers and bools, too
    raise EnvironmentConfigError(
        f"observation space {space} is not supported; it must be a Box. Wrap the environment{how}"
    )


def largest_integer(space: Any) -> int:
    """The largest whole number that observations may hold, where float32 does not hold all of them; or 0."""
    boxes = [part for _, part in _parts(space, "") if isinstance(part, Box) and part.low.size]
    bounds = [
        abs(int(bound))
        for part in boxes
        if part.dtype.kind in "iu"
        for bound in (part.low.min(), part.high.max())
    ]
    largest = max(bounds, default=0)
    return largest if largest > EXACT_IN_FLOAT32 else 0


def is_flattened(space: Any) -> bool:
    """Whether gymnasium's `FlattenObservation` makes a Box of this space that policies can use.

    Raises:
        EnvironmentConfigError: it has a part that is no fixed number of numbers, or an image, or the result
            would be too long.
    """
    if isinstance(space, Box):
        return False
    for name, part in _parts(space, ""):
        if isinstance(part, Box) and part.dtype == np.uint8 and len(part.shape) > 1:
            raise EnvironmentConfigError(
                f"observation space {space} is not supported, because {name} is an image, and an image "
                "beside other observations has no network here. Keep it alone with "
                "gymnasium.wrappers.FilterObservation and TransformObservation, or leave it out"
            )
        if not isinstance(part, Box | Discrete | MultiDiscrete | MultiBinary):
            raise EnvironmentConfigError(
                f"observation space {space} is not supported, because {name or 'it'} is a "
                f"{type(part).__name__} space, which has no fixed number of numbers. Make a Box of it with "
                "gymnasium.wrappers.TransformObservation, or leave it out with FilterObservation"
            )
    count = gymnasium.spaces.flatdim(space)
    if not 0 < count <= MOST_FLAT:
        raise EnvironmentConfigError(
            f"observation space {space} is not supported: it would be flattened to {count} numbers, of "
            f"{MOST_FLAT} at most. Make a smaller Box of it with gymnasium.wrappers.TransformObservation"
        )
    return True


def misfit(observation: np.ndarray, dtype: Any) -> str:
    """Why an observation does not fit the dtype of its space; empty where it fits.

    Some environments return whole numbers of another dtype for a space of whole numbers: these fit.
    """
    if dtype.kind not in "iub" or observation.dtype == dtype:
        return ""
    with np.errstate(invalid="ignore"):  # NaN
        changed = observation.astype(dtype) != observation
    if not changed.any():
        return ""
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return (
        f"holds {observation[changed][0]}, but its space is of {dtype}, whole numbers from {least} to "
        f"{most}; scale and round it, or make the space one of float32"
    )


def actions(space: Any, how: str) -> arrays.ActionSpace:
    """Read an action space. Arguments and errors as `observation_dtype`."""
    _require_numbers("action", space, ", which the environment may ignore")
    if (count := _outputs(space)) > MOST_FLAT:
        raise EnvironmentConfigError(
            f"action space {space} is not supported: a policy would need {count} outputs for it, of "
            f"{MOST_FLAT} at most. Make a smaller space of it: wrap the environment{how}"
        )
    if isinstance(space, Discrete):
        return arrays.Discrete(int(space.n), int(space.start))
    if isinstance(space, MultiDiscrete):
        sizes, start = (tuple(values.ravel().tolist()) for values in (space.nvec, space.start))
        return arrays.MultiDiscrete(sizes, space.shape, start, str(space.dtype))
    if isinstance(space, MultiBinary):
        return arrays.MultiBinary(space.shape)
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (np.asarray(bound, np.float32).reshape(-1) for bound in (space.low, space.high))
        return arrays.Continuous(low, high)
    raise EnvironmentConfigError(
        f"action space {space} is not supported; it must be a Box of floats, Discrete, MultiDiscrete or "
        f"MultiBinary. Wrap the environment{how}"
    )


def _outputs(space: Any) -> int:
    """The outputs that a policy would need for an action space, found without making arrays of them."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, MultiDiscrete):
        return sum(space.nvec.ravel().tolist())
    return math.prod(space.shape) if isinstance(space, Box | MultiBinary) else 0


def native_action(space: Any, action: np.ndarray) -> Any:
    """Convert an action to the space's own form.

    Args:
        action: as `nitro_actor.actions` has it, within the space.
    """
    if isinstance(space, Discrete):
        return int(action) + int(space.start)
    if isinstance(space, MultiDiscrete):
        # Without axes NumPy makes a number of it, which gymnasium's space does not contain.
        return np.asarray(action.reshape(space.shape) + space.start).astype(space.dtype)
    action = action.astype(space.dtype).reshape(space.shape)
    if isinstance(space, MultiBinary) or action.dtype == np.float32:
        return action
    # It came within the bounds as float32, which may lie outside of them.
    return np.minimum(np.maximum(action, space.low), space.high)


def _require_numbers(which: str, space: Any, for_example: str) -> None:
    """Refuse a space whose arrays have no element: gymnasium accepts it, but networks and batches do not."""
    if isinstance(space, Box | MultiDiscrete) and 0 in space.shape:
        raise EnvironmentConfigError(
            f"{which} space {space} is not supported: it holds no numbers. Give it one{for_example}"
        )


def _parts(space: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The spaces in a Dict or Tuple with their places, however deeply they lie."""
    if isinstance(space, Dict | Tuple):
        inside = space.items() if isinstance(space, Dict) else enumerate(space)
        for key, part in inside:
            yield from _parts(part, f"{name}[{key!r}]")
    else:
        yield name, space
