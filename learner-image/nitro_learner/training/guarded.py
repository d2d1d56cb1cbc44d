"""Listeners whose errors do not end a run."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nitro_learner.training.round_report import Listener, Outcome, RoundReport, Row

if TYPE_CHECKING:
    from nitro_learner.training.needs import ActorNeed
    from nitro_learner.training.sharing.toggles import Regrouping

logger = logging.getLogger(__name__)


def guarded(listeners: Iterable[Listener]) -> list[Listener]:
    """The listeners, and in place of each that is not essential one that passes on what happens to it."""
    return [listener if listener.essential else _Guarded(listener) for listener in listeners]


class _Guarded(Listener):
    """Tells a listener everything. The first error that it raises is a warning, and the others are lost."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._warned = False

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:
        self._tell(lambda: self._listener.on_run_started(round=round, rounds=rounds, history=history))

    def on_round_requested(self, *, round: int, actors: int) -> None:
        self._tell(lambda: self._listener.on_round_requested(round=round, actors=actors))

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:
        self._tell(lambda: self._listener.on_stage_started(round=round, stage=stage, actors=actors))

    def on_need_changed(self, need: ActorNeed) -> None:
        self._tell(lambda: self._listener.on_need_changed(need))

    def on_round_done(self, report: RoundReport) -> None:
        self._tell(lambda: self._listener.on_round_done(report))

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        self._tell(lambda: self._listener.on_policies_regrouped(regrouping))

    def on_cache_measured(self, *, used: int, limit: int) -> None:
        self._tell(lambda: self._listener.on_cache_measured(used=used, limit=limit))

    def on_checkpoint_saved(self, *, round: int, location: str) -> None:
        self._tell(lambda: self._listener.on_checkpoint_saved(round=round, location=location))

    def on_checkpoint_missed(self, *, round: int, why: str) -> None:
        self._tell(lambda: self._listener.on_checkpoint_missed(round=round, why=why))

    def on_tracking_failed(self, *, tracker: str) -> None:
        self._tell(lambda: self._listener.on_tracking_failed(tracker=tracker))

    def on_run_ended(self, outcome: Outcome) -> None:
        self._tell(lambda: self._listener.on_run_ended(outcome))

    def _tell(self, event: Callable[[], None]) -> None:
        try:
            event()
        except Exception as error:  # whatever it is, the training is worth more
            if not self._warned:
                self._warned = True
                logger.warning(
                    "%s failed (%s: %s). The training goes on, and further failures of it are not told.",
                    type(self._listener).__name__,
                    type(error).__name__,
                    error,
                    extra={"fields": {"traceback": traceback.format_exc()}},
                )
