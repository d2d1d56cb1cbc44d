"""Observations of one or of many environments, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.protocol.agents import AgentClass

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that observations of float32 may have."""


def batch_of(observation: ArrayLike, one: AgentClass, kind: str) -> tuple[NDArray[Any], bool]:
    """Observations or frames with a batch axis, and whether there was none."""
    dtype, shape = np.dtype(one.observation["dtype"]), tuple(one.observation[kind])
    rows = np.asarray(observation)
    if rows.ndim - len(shape) not in (0, 1) or rows.shape[rows.ndim - len(shape) :] != shape or not rows.size:
        hint = " For one frame at a time use episode()." if one.observation["stack"] > 1 else ""
        raise ValueError(
            f"{one.name}: {'a frame' if kind == 'frame' else 'an observation'} has the shape {list(shape)}, "
            f"a batch [B, {', '.join(map(str, shape))}]; this is {list(rows.shape)}.{hint}"
        )
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"{one.name}: observations are numbers, not {rows.dtype}")
    if dtype == np.float32 and rows.dtype != dtype and (np.abs(rows) > LARGEST).any():
        raise ValueError(f"{one.name}: observations must be at most {LARGEST:.3g}, what float32 holds")
    if dtype == np.uint8 and rows.dtype != dtype:
        raise ValueError(f"{one.name}: observations are uint8, not {rows.dtype}: give them as they are")
    single = rows.ndim == len(shape)
    return (rows[None] if single else rows).astype(dtype, copy=False), single


def alike(seen: Mapping[str, tuple[NDArray[Any], bool]]) -> tuple[int, bool]:
    """The number of rows of all agents, and whether each gave one observation without a batch axis."""
    found = {(len(rows), single) for rows, single in seen.values()}
    if len(found) != 1:
        shapes = {agent: list(rows.shape) for agent, (rows, _) in seen.items()}
        raise ValueError(f"the observations of all agents must be equally many, at least one; got {shapes}")
    return found.pop()
