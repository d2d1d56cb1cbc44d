"""From a round's update to the next one's number of actors: the measurement, the scaler, the report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nitro_api import JobSpec
from nitro_learner.boosting.detector import Detector, Measurement, transitions
from nitro_learner.boosting.gradient_noise import NoiseMeasurement, NoiseMeter
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.cache import Cache, CacheError
from nitro_learner.compute import Compute
from nitro_learner.report import Listener, RoundReport
from nitro_learner.scalers.base import RoundOutcome, Scaler

logger = logging.getLogger(__name__)

# How finely the time is measured that actors stand free while the detector works.
_LOOK_SECONDS = 0.005


@dataclass(frozen=True)
class _Measured:
    """What the scaler asked for, None for what it did not."""

    curvature: Measurement | None
    noise: NoiseMeasurement | None


@dataclass
class _Pending:
    """A round that is trained on but not yet scored: its report lacks what is being measured."""

    report: RoundReport
    measuring: asyncio.Task[_Measured] | None


class Scoring:
    """Scores rounds while the next one samples already.

        scoring.measure(report, update.surrogate)           # after round k's update; returns at once
        held_up = await scoring.wait(idle=...)              # in round k + 1, with I_min slots started
        actors = await scoring.settle()                     # I_{k+1}; the listeners hear of round k

    Args:
        spec: of the resolved job.
        scaler: decides.
        compute: runs the detector.
        cache: whose memory the report tells.
        listeners: hear of every round that is scored.
    """

    def __init__(
        self, spec: JobSpec, scaler: Scaler, compute: Compute, cache: Cache, listeners: Sequence[Listener]
    ) -> None:
        self._scaler = scaler
        self._transitions = spec.scaling.min_actors * spec.environment.rollout_length
        self._detector = Detector(spec.scaling, spec.seed, transitions(spec))
        self._noise = NoiseMeter(spec.scaling, self._transitions)
        self._compute = compute
        self._cache = cache
        self._listeners = listeners
        self._pending: _Pending | None = None

    @property
    def initial(self) -> int:
        """I_1."""
        return self._scaler.initial

    @property
    def pending(self) -> bool:
        """Whether a round is trained on but not yet scored."""
        return self._pending is not None

    def measure(self, report: RoundReport, surrogate: Surrogate) -> None:
        """Begins to score the round of `report`, with the measurements that the scaler needs.

        One with too little to measure, as an off-policy round that was cut short, counts as one whose
        measurement failed.
        """
        measuring = None
        if self._scaler.needs and surrogate.size >= self._transitions:
            measure = self._compute.measure(self._measure, surrogate, report.round)
            measuring = asyncio.create_task(measure)
        elif self._scaler.needs:
            report.detector_failed = True
        self._pending = _Pending(report, measuring)

    def _measure(self, surrogate: Surrogate, round: int) -> _Measured:
        needs = self._scaler.needs
        return _Measured(
            curvature=self._detector.measure(surrogate, round) if "curvature" in needs else None,
            noise=self._noise.measure(surrogate) if "gradient-noise" in needs else None,
        )

    async def wait(self, idle: Callable[[], bool]) -> float:
        """Waits for the detector; returns how many seconds of that `idle()` held."""
        seconds = 0.0
        if self._pending and (measuring := self._pending.measuring):
            while not measuring.done():
                before, counts = time.monotonic(), idle()
                await asyncio.wait({measuring}, timeout=_LOOK_SECONDS)
                seconds += time.monotonic() - before if counts else 0.0
        return seconds

    async def settle(self) -> int | None:
        """Lets the scaler decide on the pending round, hands out its report and returns the next round's
        actors; None without a pending round.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        report = pending.report
        if pending.measuring:
            _enter(await pending.measuring, report)
        decision = self._scaler.decide(_outcome(report))
        report.next_actors, report.boosting_score = decision.actors, decision.score
        for listener in self._listeners:
            listener.requested(round=report.round + 1, actors=decision.actors)
        with contextlib.suppress(CacheError):  # a user who may not ask, or trouble that the round will meet
            memory = await self._cache.memory()
            report.cache_bytes, report.cache_limit_bytes = memory.used, memory.limit
        for listener in self._listeners:
            listener.round_done(report)
        fields = report.row() | {"detector_seconds": report.detector_seconds}
        logger.info("round done", extra={"fields": fields})
        return decision.actors

    def state_dict(self) -> dict[str, Any]:
        """The scaler's."""
        return self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self._scaler.load_state_dict(state)


def _enter(measured: _Measured, report: RoundReport) -> None:
    """Writes what was measured into the report."""
    seconds = 0.0
    if (curvature := measured.curvature) is not None:
        report.convexity_ratio = curvature.ratio
        report.lambda_min, report.lambda_max = curvature.lambda_min, curvature.lambda_max
        seconds += curvature.seconds
        if not curvature.converged:
            fields = {"round": report.round, "residuals": curvature.residuals}
            logger.info("detector not converged", extra={"fields": fields})
    if (found := measured.noise) is not None:
        seconds += found.seconds
        if found.noise is not None:
            report.gradient_signal, report.gradient_noise = found.noise.signal, found.noise.noise
            report.gradient_snr = found.snr
    report.detector_seconds = seconds
    report.detector_failed = (curvature is not None and curvature.ratio is None) or (
        found is not None and found.noise is None
    )


def _outcome(report: RoundReport) -> RoundOutcome:
    """What the scaler is told of the round."""
    return RoundOutcome(
        round=report.round,
        actors=report.actors,
        statistics=report.statistics(),
        reward_mean=report.reward_mean,
        reward_round=report.reward_round,
        seconds=report.seconds_total,
        learner_seconds=report.seconds_update,
        actor_seconds=report.seconds_actor,
        cost=report.cost_total,
    )
