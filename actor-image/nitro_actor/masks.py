"""Action masks in arrays: which choices of an action an environment allows.

    kind             choices, bool [..., C]
    discrete         C = N, one for each action
    multiDiscrete    C = P, the values of each number, one number after another
    multiBinary      C = 2 M, of each bit whether it may be 0, then whether it may be 1

MaskablePPO of sb3-contrib has the same. A policy gives what is not allowed the probability 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.actions import ActionSpace, MultiBinary, MultiDiscrete, WholeNumbers
from nitro_actor.matmul import Floats

MASK = "action_mask"
"""The mask's name in observations and in infos."""

ONLY_WHOLE_NUMBERS = "which only Discrete, MultiDiscrete and MultiBinary actions can have"
"""A part of the sentences that refuse the mask of an action of real numbers."""

UNAVAILABLE = np.float32(-1e9)
"""Logit and Q value of an action that is not available, in the actor as in the learner. A bit that must be 1
has the logit -UNAVAILABLE."""


def choices(space: ActionSpace) -> int:
    """C; 0 where no action can be left out, because they are real numbers."""
    return int(_sizes(space).sum()) if isinstance(space, WholeNumbers) else 0


def apply(available: NDArray[np.bool_], space: ActionSpace, distribution: Floats) -> None:
    """Write the mask into a distribution's parameters f32 [..., P]."""
    if isinstance(space, MultiBinary):
        np.copyto(distribution, -UNAVAILABLE, where=~available[..., 0::2])
        np.copyto(distribution, UNAVAILABLE, where=~available[..., 1::2])
    else:
        np.copyto(distribution, UNAVAILABLE, where=~available)


def allow(available: NDArray[np.bool_], space: WholeNumbers, actions: NDArray[np.int64]) -> bool:
    """Whether the masks allow all of the actions [..., *action shape], which lie within the space."""
    entries = actions.reshape(*available.shape[:-1], -1) + _begins(space)
    return bool(np.take_along_axis(available, entries, axis=-1).all())


def read(given: Any, space: ActionSpace) -> NDArray[np.bool_]:
    """A mask as an environment or a user gives it, bool [C].

    Raises:
        ValueError: it is no such mask. The text goes on behind its name.
    """
    count = choices(space)
    try:
        mask = np.asarray(given)
    except ValueError:  # rows of several lengths
        mask = np.empty(0, object)
    if mask.dtype.kind not in "biuf":
        raise ValueError(f"is {given!r:.80}, not {count} bools{_order(space)}")
    if mask.size != count:
        raise ValueError(f"has shape {list(mask.shape)} instead of [{count}]{_order(space)}")
    return mask.reshape(count).astype(bool)


def obstacle(mask: NDArray[np.bool_], space: ActionSpace) -> str:
    """What a mask [..., C] says if it leaves no action, behind its name; empty where it leaves one."""
    if isinstance(space, MultiDiscrete | MultiBinary):
        some = np.logical_or.reduceat(mask, _begins(space), axis=-1)
        if some.all():
            return ""
        part = "bit" if isinstance(space, MultiBinary) else "number"
        return f"forbids every value of {part} {np.argwhere(~some)[0][-1]}; allow at least one"
    if mask.any(axis=-1).all():
        return ""
    return "forbids every action; allow at least one, such as to do nothing"


def _order(space: ActionSpace) -> str:
    """In which order the choices stand, where that is a question."""
    if isinstance(space, MultiBinary):
        return ": of each bit whether it may be 0, then whether it may be 1"
    if isinstance(space, MultiDiscrete):
        return ": the values of each number, one number after another"
    return ""


def _sizes(space: WholeNumbers) -> NDArray[np.int64]:
    return space.counts.reshape(-1)


def _begins(space: WholeNumbers) -> NDArray[np.int64]:
    """Where the choices of each number begin."""
    sizes = _sizes(space)
    begins: NDArray[np.int64] = np.cumsum(sizes) - sizes
    return begins
