"""Stacks of frames: the policy sees the last k observations, and messages carry each frame once.

A frame is an observation of one step. Frames of shape [height, width] are stacked to [height, width, k], as
channels of one image; others are joined along their last axis. The oldest comes first. At the start of an
episode, the first frame takes the places of the missing earlier ones.
"""

import numpy as np


def stacked_shape(frame: tuple[int, ...], stack: int) -> tuple[int, ...]:
    """Shape of an observation."""
    if stack == 1:
        return frame
    return (*frame, stack) if len(frame) == 2 else (*frame[:-1], stack * frame[-1])


def join(frames: np.ndarray, axis: int) -> np.ndarray:
    """Join frames [..., k, *frame], with k at `axis`, to observations [..., *stacked]; a view for images."""
    if frames.ndim - axis == 3:
        return np.moveaxis(frames, axis, -1)
    moved = np.moveaxis(frames, axis, -2)
    return moved.reshape(*moved.shape[:-2], -1)
