"""Actions whose policy's -1 to 1 stand for the bounds of the environment's actions (`rescaleActions`)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nitro_actor.config import EnvironmentConfigError

_LARGEST = float(np.finfo(np.float32).max)
"""What float32 holds."""


def rescaled(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action of an EnvironmentSpec, so that a policy's -1 to 1 stand for the environment's bounds.

    Raises:
        EnvironmentConfigError: it is no Box, or a bound is missing.
    """
    if action["kind"] != "continuous":
        raise EnvironmentConfigError(
            f"rescaleActions is for actions that are a Box, and these are {action['kind']}; leave it out"
        )
    for index, (low, high) in enumerate(zip(action["low"], action["high"], strict=True)):
        if not bounds_finite(low, high):
            raise EnvironmentConfigError(
                f"rescaleActions needs finite bounds, and actions[{index}] is from "
                f"{-math.inf if low is None else low:g} to {math.inf if high is None else high:g}; give the "
                "action space bounds, or leave rescaleActions out"
            )
    return {**action, "rescaled": True}


def bounds_finite(low: float | None, high: float | None) -> bool:
    """Whether a number of an action has both bounds. The largest float32 stands for none, too."""
    return all(bound is not None and abs(bound) < _LARGEST for bound in (low, high))
