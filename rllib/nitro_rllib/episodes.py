"""From our fragments to the episodes that RLlib learns from."""

from collections.abc import Iterator, Sequence

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fragment import AGENT_AXIS
from nitro_learner.data.batch import Fragment


def episodes(fragments: Sequence[Fragment]) -> list[SingleAgentEpisode]:
    """The episode chunks in `fragments`: by slot, then environment, then time.

    RLlib's learner changes the episodes it is given, so each list serves one update.
    """
    return [chunk for fragment in fragments for chunk in _chunks(fragment)]


def _chunks(fragment: Fragment) -> Iterator[SingleAgentEpisode]:
    """Each environment's steps, cut where its episodes ended. The tail that the fragment cut is neither
    terminated nor truncated: RLlib bootstraps there, as after a truncation.
    """
    terminated, truncated = fragment.tensors["terminated"], fragment.tensors["truncated"]
    fields = {name: np.take(array, 0, AGENT_AXIS[name]) for name, array in fragment.by_class[AGENT].items()}
    # Which row of final_observations belongs to a step that was truncated.
    cut = truncated & ~terminated
    final = cut.cumsum().reshape(cut.shape) - 1
    length, envs = terminated.shape
    for e in range(envs):
        stops = np.flatnonzero(terminated[:, e] | truncated[:, e]) + 1
        start = 0
        for stop in dict.fromkeys([*stops.tolist(), length]):
            at = stop - 1, e
            if cut[at]:
                last = fields["final_observations"][final[at]]
            elif terminated[at]:
                # The value of a terminal state is 0, so its observation is never used, and messages leave it
                # out.
                last = fields["observations"][at]
            else:
                last = fields["last_observations"][e]
            steps = slice(start, stop), e
            yield SingleAgentEpisode(
                id_=f"{fragment.slot}-{e}-{start}",
                observations=_buffer(np.concatenate([fields["observations"][steps], last[None]])),
                actions=_buffer(fields["actions"][steps]),
                rewards=_buffer(fields["rewards"][steps]),
                infos=InfiniteLookbackBuffer(data=[{}] * (stop - start + 1), lookback=0),
                extra_model_outputs={
                    Columns.ACTION_LOGP: _buffer(fields["log_probs"][steps]),
                    Columns.ACTION_DIST_INPUTS: _buffer(fields["distribution"][steps]),
                },
                terminated=bool(terminated[at]),
                truncated=bool(cut[at]),
                len_lookback_buffer=0,
            )
            start = stop


def _buffer(array: np.ndarray) -> InfiniteLookbackBuffer:
    """RLlib's column of an episode. A column that is an array needs no work per step."""
    return InfiniteLookbackBuffer(data=np.ascontiguousarray(array), lookback=0)
