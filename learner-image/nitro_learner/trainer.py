"""The training loop: one job from its first round, or from a checkpoint, to its stop condition.

A round k (nitro-spec sections 1 and 2): publish the weights, start slots 0..I_min - 1, learn from the
detector (which measures round k - 1 meanwhile) how many more there are, start those, gather, update, join the
evaluation, decide whether to stop. Compute runs in threads with a fixed number of torch threads; the event
loop stays free for the actors. Weights version v is the policy after v rounds, so round k samples with
version k - 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from nitro_actor import wire
from nitro_api import NitroTrainingJob
from nitro_learner import algorithms, evaluation, scalers, stop
from nitro_learner.backends.base import ActorBackend, BackendError
from nitro_learner.boosting.detector import Detector, Measurement
from nitro_learner.cache import CacheError, TrajectoryCache
from nitro_learner.checkpoint import Checkpoint, CheckpointError, CheckpointStore
from nitro_learner.compute import Compute
from nitro_learner.costs import Meter
from nitro_learner.dispatch import Dispatcher, EvaluationResult, RoundFailed, RoundPlan, RoundResult
from nitro_learner.report import Listener, Outcome, RoundReport, draft
from nitro_learner.scalers.base import RoundOutcome
from nitro_learner.state import TrainingState
from nitro_learner.waiting import Interrupted, Stages, unless

logger = logging.getLogger(__name__)

# How finely the time is measured that actors stand free while the detector works.
_LOOK_SECONDS = 0.005
_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


class TrainingFailed(Exception):  # noqa: N818
    """The run ended before a stop condition held.

    Attributes:
        resumable: whether going on from the last checkpoint can help (a full disk, lost actors), or the job
            itself is at fault.
    """

    def __init__(self, message: str, *, resumable: bool) -> None:
        super().__init__(message)
        self.resumable = resumable


@dataclass
class _Pending:
    """A round that is trained on but not yet scored: its report lacks what the detector says."""

    report: RoundReport
    measuring: asyncio.Task[Measurement] | None


class Trainer:
    """Trains one job.

        trainer = Trainer(job, backend, run="5f3a", checkpoints=store, checkpoint=store.latest(), meter=meter)
        loop.add_signal_handler(signal.SIGINT, trainer.interrupt)
        outcome = await trainer.run()

    Args:
        job: resolved.
        backend: where actors run; the trainer starts and closes it.
        run: identity of the run; part of every Redis key and fragment.
        checkpoints: where the state goes.
        checkpoint: where the run goes on from; None starts it.
        meter: turns rounds into dollars.
        listeners: who hears of the run's events.
        history: rows of metrics.csv of the rounds before, for the listeners' totals.
    """

    def __init__(
        self,
        job: NitroTrainingJob,
        backend: ActorBackend,
        *,
        run: str,
        checkpoints: CheckpointStore,
        checkpoint: Checkpoint | None,
        meter: Meter,
        listeners: Sequence[Listener] = (),
        history: Sequence[Mapping[str, float | None]] = (),
    ) -> None:
        self.run_id = run
        self._spec = job.spec
        self._backend = backend
        self._checkpoints = checkpoints
        self._checkpoint = checkpoint
        self._meter = meter
        self._listeners = listeners
        self._history = list(history)
        self._stop = asyncio.Event()
        self._pending: _Pending | None = None
        self._saved_round = 0

    def interrupt(self) -> None:
        """Ends the run after a checkpoint: at once while actors sample, else after the update under way."""
        self._stop.set()

    async def run(self) -> Outcome:
        """Trains until a stop condition holds or `interrupt` is called.

        Raises:
            TrainingFailed: actors, the cache or the disk failed; says whether a resume can help.
        """
        async with contextlib.AsyncExitStack() as stack:
            self._compute = stack.enter_context(Compute())
            stack.push_async_callback(self._backend.close)
            try:
                try:
                    await self._open(stack)
                except Interrupted:
                    done = self._checkpoint.round if self._checkpoint else 0
                    message = "interrupted while the actors started"
                    return self._end(Outcome("Interrupted", message, finished=False, rounds=done))
                try:
                    return await self._rounds()
                except (RoundFailed, CacheError, BackendError):
                    # Rounds since the last checkpoint need not be lost with what failed.
                    with contextlib.suppress(CheckpointError):
                        await self._save()
                    raise
            except (RoundFailed, CacheError, CheckpointError) as error:
                raise TrainingFailed(str(error), resumable=True) from error
            except (BackendError, FloatingPointError) as error:
                raise TrainingFailed(str(error), resumable=False) from error
            except OSError as error:
                if error.errno not in _DISK_TROUBLE:
                    raise
                message = f"{error.filename or 'the run folder'}: {error.strerror}. Make room and resume."
                raise TrainingFailed(message, resumable=True) from error

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        """Starts the actors, builds what learns and continues from the checkpoint."""
        spec = self._spec
        environment = await unless(self._stop, self._backend.start())
        self._cache = TrajectoryCache(self._backend.redis_url, self.run_id)
        stack.push_async_callback(self._cache.close)
        self._dispatcher = Dispatcher(
            self._backend,
            self._cache,
            environment,
            envs=spec.environment.envs_per_actor,
            timeout_seconds=spec.actor.timeout_seconds,
            deadline_seconds=spec.actor.round_deadline_seconds,
        )
        stack.push_async_callback(self._dispatcher.close)
        self._algorithm = algorithms.make(spec, environment, self._compute.device)
        self._scaler = scalers.make(spec.scaling, seed=spec.seed)
        transitions = spec.scaling.min_actors * spec.environment.rollout_length
        self._detector = Detector(spec.scaling, spec.seed, transitions)
        self.state = TrainingState(actors=self._scaler.initial)
        if self._checkpoint:
            self._restore(self._checkpoint)
        for listener in self._listeners:
            listener.started(round=self.state.round, rounds=spec.stop.rounds, history=self._history)
            listener.requested(round=self.state.round + 1, actors=self.state.actors)
        logger.info("run started", extra={"fields": {"run": self.run_id, "round": self.state.round}})

    async def _rounds(self) -> Outcome:
        try:
            while True:
                reason = self._reason_to_stop()
                if reason is not None:
                    return await self._finish(reason)
                if self._stop.is_set():
                    raise Interrupted
                await self._round()
        except Interrupted:
            await self._settle()
            await self._save()
            message = f"interrupted after round {self.state.round}; its checkpoint is on disk"
            return self._end(Outcome("Interrupted", message, finished=False, rounds=self.state.round))

    async def _round(self) -> None:
        state, spec = self.state, self._spec
        number, stages = state.round + 1, Stages()
        plan = RoundPlan(
            run=self.run_id,
            seed=spec.seed,
            round=number,
            weights_version=state.round,
            steps=spec.environment.rollout_length,
            min_actors=spec.scaling.min_actors,
            states=state.end_states,
        )
        evaluating: asyncio.Task[EvaluationResult] | None = None
        saving: asyncio.Task[None] | None = None
        try:
            with stages("dispatch"):
                await self._publish()
                # Every decision is at least I_min, so these slots need not wait for it.
                early = spec.scaling.min_actors if self._pending else state.actors
                self._dispatcher.start_slots(plan, range(early))
            await self._decide(stages, early)
            with stages("dispatch"):
                self._dispatcher.start_slots(plan, range(early, state.actors))
                if state.round and state.round % spec.evaluation.every_rounds == 0:
                    evaluating = self._evaluate()
            self._tell_phase("sample")
            saving = asyncio.create_task(self._save_if_due())
            with stages("sample"):
                result = await unless(self._stop, self._dispatcher.finish(plan))
            with stages("checkpoint"):
                # The update changes what is being written.
                await saving
        except BaseException:
            if evaluating:
                evaluating.cancel()
            if saving:
                await asyncio.wait({saving})
            await self._dispatcher.abandon(plan)
            raise
        self._tell_phase("update")
        with stages("update"):
            update = await self._compute.update(self._algorithm.update, result.fragments, number)
        with stages("evaluate"):
            evaluated = await self._join(evaluating)
        report = self._account(result, evaluated, update.stats, stages)
        measuring = None
        if self._scaler.needs_ratio:
            measure = self._compute.measure(self._detector.measure, update.surrogate, number)
            measuring = asyncio.create_task(measure)
        self._pending = _Pending(report, measuring)

    def _account(
        self, result: RoundResult, evaluated: EvaluationResult | None, stats: dict[str, float], stages: Stages
    ) -> RoundReport:
        """Takes the round into the state and the ledger and drafts its report."""
        state = self.state
        finished = state.absorb(result.fragments, keep_end_states=self._spec.environment.resume_episodes)
        if evaluated:
            state.evaluation_mean = fmean(evaluated.returns.tolist())
        seconds = stages.total()
        state.seconds += seconds
        billed = [*result.stats.billed_seconds, *(evaluated.stats.billed_seconds if evaluated else [])]
        cost = self._meter.round(state.round, seconds, billed, state.actors)
        return draft(state, result, evaluated, finished, stats, stages, seconds, cost)

    async def _decide(self, stages: Stages, early: int) -> None:
        """Settles the round before, while `early` slots of this one sample.

        The detector has held up the round only where actors stood free and there turned out to be slots for
        them; the rest of the wait is sampling.
        """
        begin, free = time.monotonic(), 0.0
        if self._pending and (measuring := self._pending.measuring):
            while not measuring.done():
                before, idle = time.monotonic(), self._dispatcher.pending < self._backend.limit
                await asyncio.wait({measuring}, timeout=_LOOK_SECONDS)
                free += time.monotonic() - before if idle else 0.0
        await self._settle()
        held_up = free if self.state.actors > early else 0.0
        stages.add("detect", held_up)
        stages.add("sample", time.monotonic() - begin - held_up)

    async def _settle(self) -> None:
        """Waits for the pending round's measurement, lets the scaler decide and hands out the report."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        report, measured = pending.report, await pending.measuring if pending.measuring else None
        ratio = measured.ratio if measured else None
        decision = self._scaler.decide(RoundOutcome(report.round, ratio, report.reward_mean, report.actors))
        self.state.actors = report.next_actors = decision.actors
        report.boosting_score, report.convexity_ratio = decision.score, ratio
        if measured:
            report.lambda_min, report.lambda_max = measured.lambda_min, measured.lambda_max
            report.detector_seconds = measured.seconds
            if not measured.converged:
                fields = {"round": report.round, "residuals": measured.residuals}
                logger.info("detector not converged", extra={"fields": fields})
        for listener in self._listeners:
            listener.requested(round=report.round + 1, actors=decision.actors)
        with contextlib.suppress(CacheError):  # a user who may not ask, or trouble that the round will meet
            report.cache_bytes = (await self._cache.memory()).used
        for listener in self._listeners:
            listener.round_done(report)
        fields = report.row() | {"detector_seconds": report.detector_seconds}
        logger.info("round done", extra={"fields": fields})

    def _reason_to_stop(self) -> stop.StopReason | None:
        state = self.state
        progress = stop.Progress(
            round=state.round,
            actor_rounds=state.actor_rounds,
            env_steps=state.env_steps,
            evaluation_mean=state.evaluation_mean,
            cost=self._meter.total,
            seconds=state.seconds,
        )
        return stop.decide(self._spec.stop, progress)

    async def _finish(self, reason: stop.StopReason) -> Outcome:
        """Scores the last round, keeps its checkpoint and evaluates the final policy."""
        await self._settle()
        await self._save()
        self._tell_phase("final")
        await self._publish()
        played = await self._join(self._evaluate())
        returns = tuple(played.returns.tolist()) if played else ()
        return self._end(
            Outcome(reason.reason, reason.message, finished=True, rounds=self.state.round, evaluation=returns)
        )

    def _end(self, outcome: Outcome) -> Outcome:
        for listener in self._listeners:
            listener.ended(outcome)
        logger.info("run ended", extra={"fields": {"reason": outcome.reason, "rounds": outcome.rounds}})
        return outcome

    async def _publish(self) -> None:
        network, tensors = self._algorithm.weights()
        version = self.state.round
        meta = {"schema": 1, "run": self.run_id, "version": version, **network}
        await self._cache.publish_weights(version, wire.encode(meta, tensors))

    def _evaluate(self) -> asyncio.Task[EvaluationResult]:
        """Starts the evaluation of the newest weights."""
        plan = evaluation.plan(self._spec, self.run_id, self.state.round)
        return asyncio.create_task(self._dispatcher.evaluate(plan))

    async def _join(self, evaluating: asyncio.Task[EvaluationResult] | None) -> EvaluationResult | None:
        """A failed evaluation is worth a warning, not the run: its round stays without one."""
        if evaluating is None:
            return None
        try:
            return await evaluating
        except (RoundFailed, CacheError) as error:
            logger.warning("The evaluation of weights version %d failed: %s", self.state.round, error)
            return None

    def _restore(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.state
        self.state = TrainingState.from_dict(saved["training"])
        self._algorithm.load_state_dict(saved["algorithm"])
        self._scaler.load_state_dict(saved["scaler"])
        self._saved_round = checkpoint.round
        if saved["threads"] != self._compute.threads:
            logger.warning(
                "The run was started with %d compute threads and goes on with %d: "
                "results may differ in their last bits.",
                saved["threads"],
                self._compute.threads,
            )

    async def _save_if_due(self) -> None:
        if self.state.round % self._spec.learner.checkpoint.every_rounds == 0:
            await self._save()

    async def _save(self) -> None:
        """Writes the state between two rounds, unless that was done or its last round is not scored yet."""
        number = self.state.round
        if number == self._saved_round or self._pending:
            return
        state = {
            "run": self.run_id,
            "threads": self._compute.threads,
            "training": self.state.state_dict(),
            "algorithm": self._algorithm.state_dict(),
            "scaler": self._scaler.state_dict(),
        }
        path = await asyncio.to_thread(self._checkpoints.save, number, state)
        self._saved_round = number
        for listener in self._listeners:
            listener.checkpointed(round=number, location=str(path))

    def _tell_phase(self, stage: str) -> None:
        for listener in self._listeners:
            listener.phase(round=self.state.round + 1, stage=stage, actors=self.state.actors)
