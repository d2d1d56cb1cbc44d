"""Billing of a run: the learner's seconds, and every invocation that the backend bills."""

from __future__ import annotations

import time

from nitro_api.costs.prices import RoundCost
from nitro_learner.backends.base import ActorBackend
from nitro_learner.backends.tasks.counts import Counts, TaskStats
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import EvaluationResult, RoundResult
from nitro_learner.training.costs import Meter


class Billing:
    """Pay for the rounds of a run. The time until the first payment counts from here.

        billing = Billing(meter, dispatcher, backend)
        cost = billing.round(7, 16, result, evaluated, seconds=1.3)
        billing.rest()                                 # what belongs to no round

    Args:
        meter: turns seconds and invocations into dollars.
        dispatcher: knows the invocations that gave no result.
        backend: knows the invocations that it bills itself.
    """

    def __init__(self, meter: Meter, dispatcher: Dispatcher, backend: ActorBackend) -> None:
        self.meter = meter
        self._dispatcher = dispatcher
        self._backend = backend
        self._paid_at = time.monotonic()

    def round(
        self,
        round: int,
        actors: int,
        *results: RoundResult | EvaluationResult | None,
        seconds: float,
    ) -> RoundCost:
        """Write down a round's seconds and all its invocations: with a result, without a result, and those
        that the backend bills itself. Return the round's own cost.

        Raises:
            OSError: the ledger cannot be written (disk full).
        """
        parts: list[Counts | TaskStats] = [work for result in results if result for work in result.work]
        parts.append(self._dispatcher.take_unused())
        billed = [time for part in parts for time in part.billed_seconds] + self._backend.take_bills()
        guessed = sum(part.estimated for part in parts)
        self._paid_at = time.monotonic()
        return self.meter.round(round, seconds, billed, actors, guessed, at_once=self._backend.limit)

    def rest(self, played: EvaluationResult | None = None) -> None:
        """Bill the seconds since the last payment, and an evaluation, outside of rounds. Raises OSError,
        as above.
        """
        self.round(0, 0, played, seconds=time.monotonic() - self._paid_at)
