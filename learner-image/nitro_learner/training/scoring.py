"""From a round's update to the next one's number of actors: the measurement, the scaler, the report."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nitro_api import JobSpec
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.backends.cache.base import Cache, CacheError
from nitro_learner.boosting.detector import Detector, Measurement, transitions
from nitro_learner.boosting.gradient_noise import NoiseMeasurement, NoiseMeter
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.scalers.base import Need, PolicyOutcome, RoundOutcome, Scaler
from nitro_learner.training.compute import Compute
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.round_report import RoundReport, mean_of
from nitro_learner.training.sharing.toggles import Regrouping

logger = logging.getLogger(__name__)

# The resolution of the time in which actors are idle while the detector works.
_LOOK_SECONDS = 0.005


@dataclass(frozen=True)
class _Measured:
    """What the scaler asked for, None for what it did not."""

    curvature: Measurement | None
    noise: NoiseMeasurement | None


@dataclass
class _Pending:
    """A round that is trained on but not yet scored: its report lacks what is being measured.

    Attributes:
        measuring: of each policy's objective; policies with a joint objective share one measurement.
        failed: whether there is too little to measure.
    """

    report: RoundReport
    measuring: asyncio.Task[dict[str, _Measured]] | None
    failed: bool


class Scoring:
    """Score each round while the next one samples::

    scoring.measure(report, updates)                    # after round k's update; returns at once
    held_up = await scoring.wait(idle=...)              # in round k + 1, with I_min slots started
    actors = await scoring.settle()                     # I_{k+1}; the listeners get round k
    """

    def __init__(
        self, spec: JobSpec, scaler: Scaler, compute: Compute, cache: Cache, listeners: Listeners
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
    def pending(self) -> bool:
        """Whether a round is trained on but not yet scored."""
        return self._pending is not None

    @property
    def measures(self) -> bool:
        """Whether the scaler waits for measurements."""
        return bool(self._scaler.needs)

    def foreseen(self, round: int, actors: int) -> int:
        """The actors that round `round + 1` is expected to have: `actors` where the scaler does not know."""
        known = self._scaler.foreseen(round)
        return actors if known is None else known

    def measure(
        self, report: RoundReport, updates: Mapping[str, UpdateResult], *, ratios: bool = False
    ) -> None:
        """Start to measure a round whose updates are `updates`, as far as the scaler needs.

        A round with too little to measure, as an off-policy round that was cut short, counts as one whose
        measurement failed.

        Args:
            ratios: whether the convexity ratios are needed, whatever the scaler asks for.
        """
        measuring, failed = None, False
        needs: frozenset[Need] = self._scaler.needs | frozenset({"curvature"} if ratios else ())
        if needs and all(update.surrogate.size >= self._transitions for update in updates.values()):
            measure = self._compute.measure(self._measure_all, updates, report.round, needs)
            measuring = asyncio.create_task(measure)
        elif needs:
            failed = True
        self._pending = _Pending(report, measuring, failed)

    def _measure_all(
        self, updates: Mapping[str, UpdateResult], round: int, needs: frozenset[Need]
    ) -> dict[str, _Measured]:
        measured: dict[int, _Measured] = {}
        for surrogate in (update.surrogate for update in updates.values()):
            if id(surrogate) not in measured:
                measured[id(surrogate)] = self._measure(surrogate, round, needs)
        return {name: measured[id(update.surrogate)] for name, update in updates.items()}

    def _measure(self, surrogate: Surrogate, round: int, needs: frozenset[Need]) -> _Measured:
        return _Measured(
            curvature=self._detector.measure(surrogate, round) if "curvature" in needs else None,
            noise=self._noise.measure(surrogate) if "gradient-noise" in needs else None,
        )

    async def wait(self, idle: Callable[[], bool]) -> float:
        """Wait for the detector; return how many seconds of that `idle()` held."""
        seconds = 0.0
        if self._pending and (measuring := self._pending.measuring):
            while not measuring.done():
                before, counts = time.monotonic(), idle()
                await asyncio.wait({measuring}, timeout=_LOOK_SECONDS)
                seconds += time.monotonic() - before if counts else 0.0
        return seconds

    async def ratios(self) -> dict[str, float | None]:
        """Wait for the detector; return the pending round's convexity ratio of each policy, None where it was
        not measured."""
        assert self._pending, "no round is pending"
        measured = await self._pending.measuring if self._pending.measuring else {}
        return {name: part.curvature.ratio if part.curvature else None for name, part in measured.items()}

    async def settle(self, regrouping: Regrouping | None = None) -> int | None:
        """Let the scaler decide on the pending round, hand out its report and return the next round's
        actors; None without a pending round.

        Args:
            regrouping: what sharing has changed after the pending round.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        counters = replace(pending.report.counters, ratio_wanted="curvature" in self._scaler.needs)
        report = replace(pending.report, counters=replace(counters, detector_failed=pending.failed))
        if pending.measuring:
            report = _measured(report, await pending.measuring)
        decision = self._scaler.decide(_outcome(report, regrouping))
        wishes = {
            name: replace(report.policies[name], score=wish.score, wanted_actors=wish.actors)
            for name, wish in decision.policies.items()
            if regrouping is None or name not in regrouping.fresh
        }
        report = replace(
            report,
            next_actors=decision.actors,
            boosting_score=decision.score,
            policies={**report.policies, **wishes},
        )
        # Before anything that waits: the actors take time to start.
        self._listeners.tell(lambda listener: listener.on_round_done(report))
        with contextlib.suppress(CacheError):  # a user who may not ask, or trouble that the round will meet
            memory = await self._cache.memory()
            self._listeners.tell(
                lambda listener: listener.on_cache_measured(used=memory.used, limit=memory.limit)
            )
        fields = report.row() | {"detector_seconds": report.counters.detector_seconds}
        logger.info("round done", extra={"fields": fields})
        return decision.actors


def _measured(report: RoundReport, measured: Mapping[str, _Measured]) -> RoundReport:
    """The report with what was measured: of several policies the mean, and each one's own."""
    parts = list({id(part): part for part in measured.values()}.values())
    curvatures = [part.curvature for part in parts if part.curvature]
    noises = [part.noise for part in parts if part.noise]
    for curvature in curvatures:
        if not curvature.converged:
            fields = {"round": report.round, "residuals": curvature.residuals}
            logger.info("detector not converged", extra={"fields": fields})
    failed = any(curvature.ratio is None for curvature in curvatures)
    failed = failed or any(noise.noise is None for noise in noises)
    seconds = sum(curvature.seconds for curvature in curvatures) + sum(noise.seconds for noise in noises)
    ratios = {name: part.curvature.ratio if part.curvature else None for name, part in measured.items()}
    return replace(
        report,
        convexity_ratio=mean_of(measurement.ratio for measurement in curvatures),
        lambda_min=mean_of(measurement.lambda_min for measurement in curvatures),
        lambda_max=mean_of(measurement.lambda_max for measurement in curvatures),
        gradient_signal=mean_of(measurement.noise.signal for measurement in noises if measurement.noise),
        gradient_noise=mean_of(measurement.noise.noise for measurement in noises if measurement.noise),
        gradient_snr=mean_of(measurement.snr for measurement in noises if measurement.noise),
        policies={name: replace(own, convexity_ratio=ratios[name]) for name, own in report.policies.items()},
        counters=replace(report.counters, detector_seconds=seconds, detector_failed=failed),
    )


def _outcome(report: RoundReport, regrouping: Regrouping | None) -> RoundOutcome:
    """The scaler's input for the round."""
    fresh = regrouping.fresh if regrouping else frozenset()
    names = regrouping.groups if regrouping else report.policies
    return RoundOutcome(
        policies={
            name: PolicyOutcome(fresh=True)
            if name in fresh
            else PolicyOutcome(report.policies[name].convexity_ratio)
            for name in names
        },
        round=report.round,
        actors=report.actors,
        statistics=report.statistics(),
        reward_mean=report.reward_mean,
        reward_round=report.reward_round,
        seconds=report.seconds_total,
        learner_seconds=report.seconds_update,
        actor_seconds=report.seconds_actor,
        cost=report.cost_total,
        round_cost=report.cost_round,
    )
