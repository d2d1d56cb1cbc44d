"""The training loop: one job from its first round, or from a checkpoint, to its stop condition.

A round k: publish the weights, have I_min actors sample, learn from the detector (which measures round k - 1
meanwhile) how many more there are, start those, gather and update as the algorithm wants to be fed, join the
evaluation, decide whether to stop. Compute runs in threads; the event loop stays free for the actors. The
policy set counts its versions itself: it has a new one after each round, and after each toggle of sharing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from nitro_api import NitroTrainingJob
from nitro_api.spec.stop import Stop
from nitro_learner import scalers
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.backends.base import ActorBackend, BackendError
from nitro_learner.cache.base import CacheError, CacheUnreachable
from nitro_learner.checkpoints.store import Checkpoint, CheckpointError, CheckpointStore
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import EvaluationResult, RoundFailed, RoundPlan, RoundResult
from nitro_learner.scalers import Scaler
from nitro_learner.training import failures, rounds, stop
from nitro_learner.training.billing import Billing
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.compute import Compute
from nitro_learner.training.costs import Meter
from nitro_learner.training.drafting import draft
from nitro_learner.training.evaluations import Evaluations
from nitro_learner.training.round_report import Listener, Outcome, RoundReport
from nitro_learner.training.rounds import RoundContext
from nitro_learner.training.scoring import Scoring
from nitro_learner.training.sharing import Regrouping, Sharing, agent_returns
from nitro_learner.training.state import TrainingState
from nitro_learner.training.waiting import Interrupted, Stages, unless

_CACHE_SECONDS = 30.0

logger = logging.getLogger(__name__)


class Trainer:
    """Train one job.

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
        listeners: receive the run's events.
        history: earlier rounds' rows of metrics.csv, for the listeners' totals.
        scaler: used in place of the scaler that the job names.
        limits: returns the current spec.stop; None means the job's own.
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
        scaler: Scaler | None = None,
        limits: Callable[[], Stop | None] = lambda: None,
    ) -> None:
        self.run_id = run
        self._spec = job.spec
        self._backend = backend
        self._checkpoints = checkpoints
        self._checkpoint = checkpoint
        self._meter = meter
        self._listeners = listeners
        self._history = list(history)
        self._scaler = scaler
        self._limits = limits
        self._stop = asyncio.Event()
        self._updates = 0
        """Of the algorithm, up to the end of the last whole round."""

    def interrupt(self) -> None:
        """End the run after a checkpoint: at once while it waits for actors, else after the
        current update."""
        self._stop.set()

    async def run(self) -> Outcome:
        """Train until a stop condition holds or `interrupt` is called.

        Raises:
            TrainingFailed: actors, the cache or the disk failed; says whether a resume can help.
        """
        with failures.as_training_failure():
            async with contextlib.AsyncExitStack() as stack:
                self._compute = stack.enter_context(Compute())
                stack.push_async_callback(self._backend.close)
                try:
                    await self._open(stack)
                except Interrupted:
                    done = self._checkpoint.round if self._checkpoint else 0
                    why = stop.StopReason("Interrupted", "interrupted while the actors started")
                    return self._end(why, done, finished=False)
                try:
                    return await self._rounds()
                except (RoundFailed, CacheError, BackendError):
                    # Rounds since the last checkpoint need not be lost with what failed.
                    if self._compute.updates == self._updates:
                        await self._settle()
                        with contextlib.suppress(CheckpointError):
                            await self._save()
                    raise

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        """Start the actors, build what learns and continue from the checkpoint."""
        spec = self._spec
        scaler = self._scaler or scalers.make(spec)
        environment = await unless(self._stop, self._backend.start())
        self._cache = self._backend.open_cache(self.run_id)
        stack.push_async_callback(self._cache.close)
        self._dispatcher = Dispatcher(
            self._backend,
            self._cache,
            environment,
            envs=spec.environment.envs_per_actor,
            optional_tensors=spec.algorithm.tensors,
            timeout_seconds=spec.actor.timeout_seconds,
            deadline_seconds=spec.actor.round_deadline_seconds,
        )
        stack.push_async_callback(self._dispatcher.close)
        self._policies = registry.make_policies(spec, environment, self._compute.device)
        self._sharing = Sharing(spec, environment, self._policies, self._compute)
        self._feed = rounds.make(
            self._policies, self._dispatcher, self._backend, self._cache, self._compute, self._stop
        )
        self._scoring = Scoring(spec, scaler, self._compute, self._cache, self._listeners)
        self.state = TrainingState(actors=self._scoring.initial)
        self._evaluations = Evaluations(spec, self.run_id, self._dispatcher, self.state)
        self._checkpointing = Checkpointing(
            self._checkpoints,
            {
                "training": self.state,
                "policies": self._policies,
                "sharing": self._sharing,
                "scaler": self._scoring,
            },
            run=self.run_id,
            threads=self._compute.threads,
            every_rounds=spec.learner.checkpoint.every_rounds,
            listeners=self._listeners,
        )
        if self._checkpoint:
            self._checkpointing.restore(self._checkpoint)
        for listener in self._listeners:
            listener.on_run_started(round=self.state.round, rounds=spec.stop.rounds, history=self._history)
            listener.on_round_requested(round=self.state.round + 1, actors=self.state.actors)
        logger.info("run started", extra={"fields": {"run": self.run_id, "round": self.state.round}})

    async def _rounds(self) -> Outcome:
        self._billing = Billing(self._meter, self._dispatcher, self._backend)
        # Of the round that comes, which begins with the toggle of sharing where there is one.
        self._stages = Stages()
        try:
            while True:
                reason = self._reason_to_stop()
                if reason is not None:
                    return await self._finish(reason)
                if self._stop.is_set():
                    raise Interrupted
                await self._round()
        except Interrupted:
            await self._break_off()
            await self._settle()
            await self._save()
            message = f"interrupted after round {self.state.round}; its checkpoint is on disk"
            why = stop.StopReason("Interrupted", message)
            return self._end(why, self.state.round, finished=False)
        except BaseException:
            await self._break_off()
            raise

    async def _break_off(self) -> None:
        """Cancel the running requests, and pay for them: actors have worked although nothing was learned."""
        await self._dispatcher.close()
        try:
            self._billing.rest()
        except OSError as error:  # the run ends for another reason, which must be reported first
            logger.warning("What was broken off is missing in the ledger: %s", error)

    async def _round(self) -> None:
        state, spec = self.state, self._spec
        number, stages = state.round + 1, self._stages
        plan = RoundPlan(
            run=self.run_id,
            seed=spec.seed,
            round=number,
            weights_version=self._policies.version,
            steps=spec.environment.rollout_length,
            min_actors=spec.scaling.min_actors,
            states=dict(state.end_states),
        )
        evaluating: asyncio.Task[EvaluationResult] | None = None
        saving: asyncio.Task[None] | None = None
        try:
            with stages("dispatch"):
                await self._publish()
                # Every decision is at least I_min, so these slots need not wait for it.
                early = spec.scaling.min_actors if self._scoring.pending else state.actors
                await self._feed.start(plan, early)
            await self._decide(stages, early)
            with stages("dispatch"):
                await self._feed.start(plan, state.actors)
                if state.round and state.round % spec.evaluation.every_rounds == 0:
                    evaluating = self._evaluations.start(self._policies.version)
            self._stage_started("sample")
            saving = asyncio.create_task(self._checkpointing.save_if_due(state.round))
            context = RoundContext(plan, state.actors, saving, stages, self._stage_started)
            result, updates = await self._feed.learn(context)
        except BaseException:
            # A checkpoint is written to its end. This error is reported in place of what either task raises.
            if evaluating:
                evaluating.cancel()
            await asyncio.gather(*filter(None, (evaluating, saving)), return_exceptions=True)
            raise
        with stages("evaluate"):
            evaluated = await self._evaluations.join(evaluating)
        report = self._account(result, evaluated, updates, stages)
        self._stages = Stages()
        returns = agent_returns(result.fragments, list(self._policies.agents))
        reason = self._sharing.toggles(number, returns)
        self._scoring.measure(report, updates, ratios=reason is not None)
        if reason:
            await self._regroup(number, reason, result.fragments, returns)

    async def _regroup(
        self, round: int, reason: str, fragments: Sequence[Fragment], returns: Mapping[str, float]
    ) -> None:
        """Toggle sharing after round `round`. The round is measured first: its convexity ratios decide whose
        policies go on. The next round begins with that."""
        with self._stages("detect"):
            ratios = await self._scoring.ratios()
            regrouping = await self._sharing.regroup(round, reason, fragments, returns, ratios)
            self.state.forget_policies(regrouping.fresh, kept=regrouping.groups)
            await self._settle(regrouping)
        for listener in self._listeners:
            listener.on_policies_regrouped(regrouping)

    def _account(
        self,
        result: RoundResult,
        evaluated: EvaluationResult | None,
        updates: Mapping[str, UpdateResult],
        stages: Stages,
    ) -> RoundReport:
        """Add the round to the state and the ledger, and draft its report."""
        state, self._updates = self.state, self._compute.updates
        finished = state.absorb(
            result.fragments,
            self._policies.agents,
            keep_end_states=self._spec.environment.resume_episodes,
        )
        seconds = stages.total()
        state.seconds += seconds
        cost = self._billing.round(state.round, state.actors, result, evaluated, seconds=seconds)
        stats = {name: update.stats for name, update in updates.items()}
        groups = self._policies.groups()
        report = draft(state, result, evaluated, finished, groups, stats, stages, seconds, cost)
        report.busy_seconds = self._meter.busy_seconds
        return report

    async def _decide(self, stages: Stages, early: int) -> None:
        """Settle the round before, while `early` slots of this one sample.

        The detector has held up the round only where actors stood free and there turned out to be slots for
        them; the rest of the wait is sampling.
        """
        begin = time.monotonic()
        free = await self._scoring.wait(idle=lambda: self._dispatcher.pending < self._backend.limit)
        await self._settle()
        held_up = free if self.state.actors > early else 0.0
        stages.add("detect", held_up)
        stages.add("sample", time.monotonic() - begin - held_up)

    async def _settle(self, regrouping: Regrouping | None = None) -> None:
        """Have the pending round scored, if there is one."""
        actors = await self._scoring.settle(regrouping)
        if actors is not None:
            self.state.actors = actors

    def _reason_to_stop(self) -> stop.StopReason | None:
        return stop.decide(self._limits() or self._spec.stop, self.state.progress(self._meter.total.total))

    async def _finish(self, reason: stop.StopReason) -> Outcome:
        """Score the last round, save its checkpoint and evaluate the final policy."""
        await self._settle()
        await self._save()
        self._stage_started("final")
        await self._dispatcher.close()  # lanes of an off-policy algorithm, which nobody waits for any more
        await self._publish()
        started = self._evaluations.start(self._policies.version)
        played = await unless(self._stop, self._evaluations.join(started))
        self._billing.rest(played)
        return self._end(reason, self.state.round, finished=True, played=played)

    def _end(
        self,
        why: stop.StopReason,
        rounds: int,
        *,
        finished: bool,
        played: EvaluationResult | None = None,
    ) -> Outcome:
        outcome = Outcome(
            why.reason,
            why.message,
            finished,
            rounds,
            self._meter.total,
            self._meter.repeated,
            evaluation=tuple(played.returns.tolist()) if played else (),
            agent_evaluation=played.agent_means() if played else {},
            class_evaluation=played.class_means() if played else {},
            busy_seconds=self._meter.busy_seconds,
            pod_seconds=self._meter.pod_seconds,
        )
        for listener in self._listeners:
            listener.on_run_ended(outcome)
        logger.info("run ended", extra={"fields": {"reason": outcome.reason, "rounds": outcome.rounds}})
        return outcome

    async def _publish(self) -> None:
        version, payload = self._policies.version, self._policies.encode(self.run_id)
        try:
            await self._cache.publish_weights(version, payload)
        except CacheUnreachable:  # a Redis that is started again is back within seconds
            await self._cache.wait_reachable(_CACHE_SECONDS)
            await self._cache.publish_weights(version, payload)

    async def _save(self) -> None:
        """Save the state between two rounds, unless its last round is not scored yet."""
        if not self._scoring.pending:
            await self._checkpointing.save(self.state.round)

    def _stage_started(self, stage: str) -> None:
        for listener in self._listeners:
            listener.on_stage_started(round=self.state.round + 1, stage=stage, actors=self.state.actors)
