"""Observations of stacked frames, made again from the frames that a fragment carries once each."""

from collections.abc import Mapping

import numpy as np

from nitro_actor.protocol.fragment import AGENT_AXIS, EARLIER
from nitro_actor.stacking import stacked_shape


def restack(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A rollout's tensors with whole observations in place of frames; the same where nothing was stacked.

    A stack never holds frames of an earlier episode: the episode's first frame takes their places.

    Args:
        tensors: as `nitro_actor.rollout.rollout` returns them.

    Returns:
        observations [L, E, *obs], last_observations [E, *obs], final_observations [n, *obs]; the others as
        they are, without earlier_observations.
    """
    result = dict(tensors)
    earlier = result.pop(EARLIER, None)
    if earlier is None:
        return result
    newest, last, finals = (tensors[f"{name}observations"] for name in ("", "last_", "final_"))
    ended = tensors["terminated"] | tensors["truncated"]
    length, envs = ended.shape
    before = earlier.shape[1]
    # All frames of each environment in order of time, [k - 1 + L + 1, E, *frame].
    frames = np.concatenate([earlier.swapaxes(0, 1), newest, last[None]])
    time = np.arange(before, before + length + 1)[:, None]
    begins = np.where(np.concatenate([np.zeros((1, envs), bool), ended]), time, 0)
    first = np.maximum.accumulate(begins, axis=0)  # of each step's episode
    stack = before + 1
    shape = stacked_shape(frames.shape[2:], stack)
    width = shape[-1] // stack
    whole = np.empty((length + 1, envs, *shape), frames.dtype)
    for place in range(stack):
        shown = frames[np.maximum(time - (before - place), first), np.arange(envs)]
        whole[..., place * width : (place + 1) * width] = shown.reshape(*whole.shape[:-1], width)
    result["observations"], result["last_observations"] = whole[:-1], whole[-1]
    # A truncated episode's last observation is the stack of its last step, moved on by one frame.
    cut = whole[:-1][tensors["truncated"] & ~tensors["terminated"]]
    finals = finals.reshape(len(cut), *shape[:-1], width)
    result["final_observations"] = np.concatenate([cut[..., width:], finals], axis=-1)
    return result


def restack_agents(
    fields: Mapping[str, np.ndarray], terminated: np.ndarray, truncated: np.ndarray
) -> dict[str, np.ndarray]:
    """`restack` for the arrays of an agent class, [L, E, n_c, ...] by field.

    Args:
        fields: the class's tensors, without the class's name.
        terminated, truncated: bool [L, E], of the fragment.
    """
    if EARLIER not in fields:
        return dict(fields)
    length, envs, agents = fields["observations"].shape[:3]
    # Each agent of each environment as an environment of its own.
    lanes = {name: array.reshape(_merged(array.shape, AGENT_AXIS[name])) for name, array in fields.items()}
    lanes["terminated"], lanes["truncated"] = (
        np.repeat(flags, agents, axis=1) for flags in (terminated, truncated)
    )
    whole = restack(lanes)
    shape = whole["observations"].shape[2:]
    return {name: array for name, array in fields.items() if name != EARLIER} | {
        "observations": whole["observations"].reshape(length, envs, agents, *shape),
        "last_observations": whole["last_observations"].reshape(envs, agents, *shape),
        "final_observations": whole["final_observations"].reshape(-1, agents, *shape),
    }


def _merged(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :])
