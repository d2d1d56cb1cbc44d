"""Observations of stacked frames, made again from the frames that a fragment carries once each."""

from collections.abc import Mapping

import numpy as np

from nitro_actor.protocol.fragment import AGENT_AXIS, EARLIER
from nitro_actor.stacking import stacked_shape


def restack(
    fields: Mapping[str, np.ndarray], terminated: np.ndarray, truncated: np.ndarray
) -> dict[str, np.ndarray]:
    """An agent class's arrays with whole observations in place of frames; the same where nothing was stacked.

    A stack never holds frames of an earlier episode: the episode's first frame takes their places.

    Args:
        fields: the class's tensors of a rollout, [L, E, n_c, ...], without the class's name.
        terminated, truncated: bool [L, E], of the fragment.

    Returns:
        observations [L, E, n_c, *obs], last_observations [E, n_c, *obs], final_observations [n, n_c, *obs];
        the others as they are, without earlier_observations.
    """
    if EARLIER not in fields:
        return dict(fields)
    length, envs, agents = fields["observations"].shape[:3]
    # Each agent of each environment is a lane.
    names = ("observations", "last_observations", "final_observations", EARLIER)
    newest, last, finals, earlier = (
        fields[name].reshape(_merged(fields[name].shape, AGENT_AXIS[name])) for name in names
    )
    ends = (np.repeat(flags, agents, axis=1) for flags in (terminated, truncated))
    steps, last, finals = _whole(newest, last, finals, earlier, *ends)
    shape = steps.shape[2:]
    return {name: array for name, array in fields.items() if name != EARLIER} | {
        "observations": steps.reshape(length, envs, agents, *shape),
        "last_observations": last.reshape(envs, agents, *shape),
        "final_observations": finals.reshape(-1, agents, *shape),
    }


def _whole(
    newest: np.ndarray,
    last: np.ndarray,
    finals: np.ndarray,
    earlier: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole observations of lanes: of the steps [L, lanes, *obs], after the last one, and of cut episodes."""
    ended = terminated | truncated
    length, lanes = ended.shape
    before = earlier.shape[1]
    # All frames of each lane in order of time, [k - 1 + L + 1, lanes, *frame].
    frames = np.concatenate([earlier.swapaxes(0, 1), newest, last[None]])
    time = np.arange(before, before + length + 1)[:, None]
    begins = np.where(np.concatenate([np.zeros((1, lanes), bool), ended]), time, 0)
    first = np.maximum.accumulate(begins, axis=0)  # of each step's episode
    stack = before + 1
    shape = stacked_shape(frames.shape[2:], stack)
    width = shape[-1] // stack
    whole = np.empty((length + 1, lanes, *shape), frames.dtype)
    for place in range(stack):
        shown = frames[np.maximum(time - (before - place), first), np.arange(lanes)]
        whole[..., place * width : (place + 1) * width] = shown.reshape(*whole.shape[:-1], width)
    # A truncated episode's last observation is the stack of its last step, moved on by one frame.
    cut = whole[:-1][truncated & ~terminated]
    finals = finals.reshape(len(cut), *shape[:-1], width)
    return whole[:-1], whole[-1], np.concatenate([cut[..., width:], finals], axis=-1)


def _merged(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :])
