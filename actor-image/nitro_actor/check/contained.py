"""Why a value is not in its space, in a sentence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from nitro_actor.engines.returned import described


def misfit(space: Any, value: Any, what: str) -> str:
    """Why a value is not in its space; empty where it is.

    Args:
        what: the subject of the sentence.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            return (
                f"{what} is {described(value)}; its space has the keys {', '.join(map(repr, space.spaces))}"
            )
        found = (misfit(part, value[key], f"{what}[{key!r}]") for key, part in space.spaces.items())
        return next(filter(None, found), "")
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            return f"{what} is {described(value)}; its space is a Tuple of {len(space.spaces)} parts"
        found = (
            misfit(part, one, f"{what}[{index}]")
            for index, (part, one) in enumerate(zip(space.spaces, value, strict=True))
        )
        return next(filter(None, found), "")
    if isinstance(space, spaces.Box):
        return _of_box(space, value, what)
    if space.contains(value):
        return ""
    return f"{what} is {described(value)}, which is not in its space, {space}"


def _of_box(space: spaces.Box, value: Any, what: str) -> str:
    told = f"np.asarray(..., dtype=np.{space.dtype})"
    if not isinstance(value, np.ndarray | np.generic):
        return f"{what} is {described(value)}; its space is a Box, so return an array: {told}"
    if value.shape != space.shape:
        return f"{what} has the shape {list(value.shape)}, but its space says {list(space.shape)}"
    if not np.can_cast(value.dtype, space.dtype):
        return (
            f"{what} has the dtype {value.dtype}, but its space says {space.dtype}: return {told}, or give "
            f"the space dtype=np.{value.dtype}"
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        at, number = _first(value, ~np.isfinite(value))
        return f"{what}{at} is {number}: observations must be finite numbers"
    array = np.asarray(value)
    outside = (array < space.low) | (array > space.high)
    if outside.any():
        at, number = _first(value, outside)
        index = tuple(np.argwhere(outside)[0])
        return (
            f"{what}{at} is {number}, outside of its space, which goes from {space.low[index]:g} to "
            f"{space.high[index]:g} there: correct the space's bounds, or clip what is returned"
        )
    return ""


def _first(value: Any, wrong: Any) -> tuple[str, Any]:
    """The first number that is wrong, and its place."""
    index = tuple(np.argwhere(wrong)[0])
    return (f"[{', '.join(map(str, index))}]" if index else ""), np.asarray(value)[index]
