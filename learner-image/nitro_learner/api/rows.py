"""Observations of one or of many environments, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.actions import action_space
from nitro_actor.masks import choices, obstacle
from nitro_actor.protocol.agents import AgentClass

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that observations of float32 may have."""


def batch_of(observation: ArrayLike, spaces: AgentClass, kind: str) -> tuple[NDArray[Any], bool]:
    """Observations or frames with a batch axis, and whether there was none."""
    dtype, shape = np.dtype(spaces.observation["dtype"]), tuple(spaces.observation[kind])
    rows = np.asarray(observation)
    if rows.ndim - len(shape) not in (0, 1) or rows.shape[rows.ndim - len(shape) :] != shape or not rows.size:
        hint = " For one frame at a time use episode()." if spaces.observation["stack"] > 1 else ""
        raise ValueError(
            f"{spaces.name}: {'a frame' if kind == 'frame' else 'an observation'} has the shape "
            f"{list(shape)}, a batch [{', '.join(map(str, ('B', *shape)))}]; this is {list(rows.shape)}."
            f"{hint}"
        )
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"{spaces.name}: observations are numbers, not {rows.dtype}")
    if dtype == np.float32 and rows.dtype != dtype and (np.abs(rows) > LARGEST).any():
        raise ValueError(f"{spaces.name}: observations must be at most {LARGEST:.3g}, what float32 holds")
    if dtype == np.uint8 and rows.dtype != dtype:
        raise ValueError(f"{spaces.name}: observations are uint8, not {rows.dtype}: give them as they are")
    single = rows.ndim == len(shape)
    return (rows[None] if single else rows).astype(dtype, copy=False), single


def masks_of(available: ArrayLike, spaces: AgentClass, agent: str, count: int) -> NDArray[np.bool_]:
    """The choices of its action that an agent has in each of `count` rows, bool [count, C].

    Args:
        available: bool [C] or [count, C].
        spaces: the agent's.
        agent: its name, for errors.
        count: rows of its observations.
    """
    space = action_space(spaces.action)
    shape = (count, choices(space))
    if not shape[1]:
        raise ValueError(f"available: the actions of {agent} are real numbers, so none can be left out")
    try:
        rows = np.asarray(available)
    except ValueError:  # rows of several lengths
        rows = np.empty(0)
    if rows.shape not in (shape, shape[1:]):
        raise ValueError(f"available: {agent} needs the shape {list(shape)}, not {list(rows.shape)}")
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"available: {agent} needs bools, not {rows.dtype}")
    rows = rows.astype(bool)
    if obstacle(rows, space):
        where = "" if spaces.action["kind"] == "discrete" else ", of each of its numbers"
        raise ValueError(f"available: {agent} needs an action that is allowed in each row{where}")
    return np.broadcast_to(rows, shape)


def alike(seen: Mapping[str, tuple[NDArray[Any], bool]]) -> tuple[int, bool]:
    """The number of rows of all agents, and whether each gave one observation without a batch axis."""
    batches = {(len(rows), single) for rows, single in seen.values()}
    if len(batches) != 1:
        shapes = {agent: list(rows.shape) for agent, (rows, _) in seen.items()}
        raise ValueError(f"the observations of all agents must be equally many, at least one; got {shapes}")
    return batches.pop()
