"""What a run owes, as it goes: the learner's seconds, and every invocation that the backend bills."""

from __future__ import annotations

import time

from nitro_api.prices import RoundCost
from nitro_learner.backends.base import ActorBackend
from nitro_learner.costs import Meter
from nitro_learner.counts import Counts
from nitro_learner.dispatch import Dispatcher
from nitro_learner.plans import DispatchStats, EvaluationResult, RoundResult


class Payments:
    """Pays for the rounds of a run. The time until the first payment counts from here.

        payments = Payments(meter, dispatcher, backend)
        cost = payments.round(7, 16, result, evaluated, seconds=1.3)
        payments.rest()                                 # what belongs to no round

    Args:
        meter: turns seconds and invocations into dollars.
        dispatcher: has the invocations that gave no result.
        backend: has those that it bills by itself.
    """

    def __init__(self, meter: Meter, dispatcher: Dispatcher, backend: ActorBackend) -> None:
        self._meter = meter
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
        """Writes down a round's seconds and all invocations: of the results, of what gave none, and the
        backend's own. Returns the run's cost so far.

        Raises:
            OSError: the ledger cannot be written (disk full).
        """
        parts: list[Counts | DispatchStats] = [result.stats for result in results if result]
        parts.append(self._dispatcher.take_unused())
        billed = [each for part in parts for each in part.billed_seconds] + self._backend.take_bills()
        guessed = sum(part.estimated for part in parts)
        self._paid_at = time.monotonic()
        return self._meter.round(round, seconds, billed, actors, guessed)

    def rest(self, played: EvaluationResult | None = None) -> None:
        """Writes down the seconds since the last payment, and an evaluation, as of no round. Raises OSError,
        as above.
        """
        self.round(0, 0, played, seconds=time.monotonic() - self._paid_at)
