"""Checkpointing: what a checkpoint holds, and when it is written and read."""

import asyncio
import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nitro_learner.checkpoints.attachments import without_attachments
from nitro_learner.checkpoints.store import Checkpoint, CheckpointStore
from nitro_learner.training.listeners import Listeners

logger = logging.getLogger(__name__)


_POLICIES = ("policies", "sharing")
"""The parts that the file of the best policy has."""


class Part(Protocol):
    """A part of a run that a checkpoint holds."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Checkpointing:
    """Save a run's parts after its rounds, each round once, and restore them.

    Args:
        parts: by the name that they have in the checkpoint.
        threads: of the learner's numerics; a run that goes on with another number is warned about.
        device: the name of what computes; a run that continues on another one is warned about.
        device_named: whether the job names the device, so that the next sitting has the same kind.
        spaces: what agents see and do; see adoption.py.
        played: returns what actors play now; see policy_set.py. It is there for those who load the policy
            without this learner, and is not restored.
        every_rounds: how often `save_if_due` saves.
    """

    def __init__(
        self,
        store: CheckpointStore,
        parts: Mapping[str, Part],
        *,
        run: str,
        threads: int,
        device: str,
        device_named: bool,
        spaces: Mapping[str, Any],
        played: Callable[[], Mapping[str, Any]],
        every_rounds: int,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._parts = parts
        self._meta = {"run": run, "threads": threads, "device": device, "spaces": spaces}
        self._device_named = device_named
        self._played = played
        self._every_rounds = every_rounds
        self._listeners = listeners
        self._saved_round = 0
        self._kept: dict[int, dict[str, Any]] = {}
        self._candidate: tuple[int, dict[str, Any]] | None = None
        self._best: float | None = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue all parts from a checkpoint of this run."""
        for name, part in self._parts.items():
            part.load_state_dict(checkpoint.state[name])
        self._saved_round = checkpoint.round
        self._best = checkpoint.state["training"].get("best_evaluation")
        file = self._store.best()
        # A file of a later round is made again. One of this round may have the evaluation at an end.
        if file is not None and file["round"] <= checkpoint.round:
            self._best = file["mean"]
        self._warn_of_changes(checkpoint.state)

    def _warn_of_changes(self, state: Mapping[str, Any]) -> None:
        """Warn if other threads or another device go on with a run than those that saved it."""
        before, now = state["threads"], self._meta["threads"]
        if before != now:
            logger.warning(
                "The run was started with %d compute threads and goes on with %d: "
                "results may differ in their last bits.",
                before,
                now,
            )
        before, now = state.get("device"), self._meta["device"]
        if before not in (None, now):  # None: a release saved it that did not write it down
            device = "cpu" if now == "cpu" else "cuda"
            logger.warning(
                "The run was computed on %s and continues on %s: results may differ in their last bits.%s",
                before,
                now,
                "" if self._device_named else f" Give --set spec.learner.device={device} to keep it here.",
            )

    async def save_if_due(self, round: int) -> None:
        """Save if it is this round's turn."""
        if round % self._every_rounds == 0:
            await self.save(round)

    def keep(self, round: int) -> None:
        """Keep a copy of the parts as they are after `round`, unless they are written. From now on they may
        change, and `save(round)` still writes what they were."""
        if round != self._saved_round:
            self._kept = {round: copy.deepcopy(self._state())}

    def has(self, round: int) -> bool:
        """Whether the parts as they were after `round` are written or kept."""
        return round == self._saved_round or round in self._kept

    async def save(self, round: int) -> None:
        """Write the parts as they are after `round`, unless they are written. They must not change meanwhile,
        and not before, unless they are kept.

        Raises:
            CheckpointError: the disk is full or the folder cannot be written.
        """
        if round != self._saved_round:
            await self._write(round)

    def propose(self, round: int) -> None:
        """Keep a copy of the policies as they are after `round`, while they are evaluated: they may be the
        best ones. It has no replayed data, because who plays or takes over policies needs none."""
        parts = {name: self._parts[name].state_dict() for name in _POLICIES}
        state = without_attachments({**self._meta, **parts, "played": self._played()})
        self._candidate = round, copy.deepcopy(state)

    async def save_best(self, mean: float) -> None:
        """Write what was proposed last as the best policy, if no earlier one was evaluated as good.

        Args:
            mean: return of its evaluation.

        Raises:
            CheckpointError: as `save`.
        """
        if self._best is not None and mean <= self._best:
            return
        assert self._candidate is not None, "an evaluation begins with a proposal"
        round, state = self._candidate
        await asyncio.to_thread(self._store.save_best, round, state, mean)
        self._best = mean

    async def save_start(self) -> None:
        """Write the parts as they are before the first round, which is of use where they are another run's.

        Raises:
            CheckpointError: as `save`.
        """
        await self._write(0)

    async def _write(self, round: int) -> None:
        state = self._meta | (self._kept.get(round) or self._state())
        path = await asyncio.to_thread(self._store.save, round, state)
        self._saved_round, self._kept = round, {}
        if (why := self._store.missed) is None:
            self._listeners.tell(
                lambda listener: listener.on_checkpoint_saved(round=round, location=str(path))
            )
        else:
            self._listeners.tell(lambda listener: listener.on_checkpoint_missed(round=round, why=why))

    def _state(self) -> dict[str, Any]:
        return {**{name: part.state_dict() for name, part in self._parts.items()}, "played": self._played()}
