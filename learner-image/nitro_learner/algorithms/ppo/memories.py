"""What recurrent critics remember of episodes that go on in the next round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nitro_learner.data.batch import Fragment
from nitro_learner.data.shapes import check
from nitro_learner.networks.normalise import with_copies


class CriticMemories:
    """The memories of a critic, by slot. Actors have no critic, so these stay with the learner. Those of
    policies are part of the slot's end state.

        before = memories.before(fragments)         # with the first observations of a round
        memories.keep(fragments, after)             # behind its last ones
    """

    def __init__(self, size: int) -> None:
        """
        Args:
            size: H.
        """
        self._size = size
        self._running: dict[int, np.ndarray] = {}

    def before(self, fragments: Sequence[Fragment], lanes: int) -> np.ndarray:
        """The memories with which fragments begin, f32 [fragments, lanes, H]. They are empty where a slot's
        episodes do not go on.

        Raises:
            ValueError: a slot goes on with another number of lanes.
        """
        before = np.zeros((len(fragments), lanes, self._size), np.float32)
        for row, fragment in zip(before, fragments, strict=True):
            running = self._running.get(fragment.slot) if fragment.resumed else None
            if running is not None:
                check(row.shape, "memories of a fragment", {f"memories of slot {fragment.slot}": running})
                row[:] = running
        return before

    def keep(self, fragments: Sequence[Fragment], after: np.ndarray) -> None:
        """Keep the memories with which fragments end, f32 [fragments, lanes, H]."""
        for row, fragment in zip(after, fragments, strict=True):
            self._running[fragment.slot] = row.copy()

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Let slots go on with copies of other slots' episodes; see `Learner`."""
        self._running = with_copies(self._running, sources)

    def state_dict(self) -> dict[str, Any]:
        """The part of a checkpoint."""
        return {"running": {str(slot): memory.copy() for slot, memory in sorted(self._running.items())}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self._running = {int(slot): np.array(memory, np.float32) for slot, memory in state["running"].items()}
