"""The training loop: one job from its first round, or from a checkpoint, to its stop condition.

The trainer starts the actors, builds what learns, and has a `RoundRunner` train round after round until a
stop condition holds. Compute runs in threads; the event loop stays free for the actors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

from nitro_actor.protocol.environment import EnvironmentSpec
from nitro_api import NitroTrainingJob
from nitro_api.spec.stop import Stop
from nitro_learner import scalers
from nitro_learner.algorithms import registry
from nitro_learner.backends.base import ActorBackend, BackendError
from nitro_learner.cache.base import CacheError
from nitro_learner.checkpoints.store import Checkpoint, CheckpointError, CheckpointStore
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import EvaluationResult, RoundFailed
from nitro_learner.scalers import Scaler
from nitro_learner.training import failures, rounds, stop
from nitro_learner.training.adoption import Source, adopt, spaces_of
from nitro_learner.training.billing import Billing
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.compute import Compute, device_name
from nitro_learner.training.costs import Meter
from nitro_learner.training.evaluations import Evaluations
from nitro_learner.training.guarded import guarded
from nitro_learner.training.needs import Needs
from nitro_learner.training.round_report import Listener, Outcome
from nitro_learner.training.round_runner import RoundRunner
from nitro_learner.training.scoring import Scoring
from nitro_learner.training.sharing import Sharing
from nitro_learner.training.state import TrainingState
from nitro_learner.training.waiting import Interrupted, unless

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
        source: another run, with whose policies a run that starts begins.
        meter: turns rounds into dollars.
        listeners: receive the run's events; an error of one that is not essential is a warning.
        history: earlier rounds' rows of metrics.csv, for the listeners' totals.
        scaler: used in place of the scaler that the job names.
        limits: returns the current spec.stop; None means the job's own.

    Attributes:
        environment: of the actors, once they have started.
    """

    def __init__(
        self,
        job: NitroTrainingJob,
        backend: ActorBackend,
        *,
        run: str,
        checkpoints: CheckpointStore,
        checkpoint: Checkpoint | None,
        source: Source | None = None,
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
        self._source = None if checkpoint else source
        self._meter = meter
        self._listeners = guarded(listeners)
        self._history = list(history)
        self._scaler = scaler
        self._limits = limits
        self._rounds = job.spec.stop.rounds
        self._stop = asyncio.Event()
        self._interrupted: str | None = None
        self._ending: stop.StopReason | None = None
        self.environment: EnvironmentSpec | None = None

    def interrupt(self, why: str = "interrupted") -> None:
        """End the run after a checkpoint: at once while it waits for actors, else after the update. `why`
        begins the outcome's message."""
        self._interrupted = self._interrupted or why
        self._stop.set()

    def end(self, why: stop.StopReason) -> None:
        """End the run as a stop condition does. A round that only samples is given up; an off-policy one,
        which may have learned already, is finished before."""
        if self._ending is None:
            self._ending = why
            if self._spec.algorithm.record.feeding == "rounds":
                self._stop.set()

    async def run(self) -> Outcome:
        """Train until a stop condition holds or `interrupt` is called.

        Raises:
            TrainingFailed: actors, the cache or the disk failed; says whether a resume can help.
        """
        with failures.as_training_failure():
            async with contextlib.AsyncExitStack() as stack:
                compute = stack.enter_context(Compute())
                stack.push_async_callback(self._backend.close)
                try:
                    runner = await self._open(stack, compute)
                except Interrupted:
                    done = self._checkpoint.round if self._checkpoint else 0
                    why = stop.StopReason("Interrupted", f"{self._interrupted} while the actors started")
                    return self._end(why, done, finished=False)
                try:
                    return await self._train(runner)
                except (RoundFailed, CacheError, BackendError):
                    # Rounds since the last checkpoint need not be lost with what failed.
                    if runner.can_conclude:
                        with contextlib.suppress(CheckpointError):
                            await runner.conclude()
                    raise

    async def _open(self, stack: contextlib.AsyncExitStack, compute: Compute) -> RoundRunner:
        """Start the actors, build what learns and continue from the checkpoint."""
        spec = self._spec
        scaler = self._scaler or scalers.make(spec)
        environment = self.environment = await self._start()
        cache = self._backend.open_cache(self.run_id)
        stack.push_async_callback(cache.close)
        dispatcher = Dispatcher(
            self._backend,
            cache,
            environment,
            envs=spec.environment.envs_per_actor,
            optional_tensors=spec.algorithm.tensors,
            memory=spec.network.memory_size,
            timeout_seconds=spec.actor.timeout_seconds,
            deadline_seconds=spec.actor.round_deadline_seconds,
        )
        stack.push_async_callback(dispatcher.close)
        needs = Needs(
            self._listeners,
            lambda: max(self._backend.in_use, dispatcher.pending),
            history=self._history,
            gaps=spec.algorithm.record.feeding == "rounds",
        )
        needs.coming(self._checkpoint.state["training"]["actors"] if self._checkpoint else scaler.initial)
        policies = registry.make_policies(spec, environment, compute.device)
        sharing = Sharing(spec, environment, policies, compute)
        feed = rounds.make(policies, dispatcher, self._backend, cache, compute, self._stop)
        scoring = Scoring(spec, scaler, compute, cache, self._listeners)
        state = TrainingState(actors=scoring.initial)
        checkpointing = Checkpointing(
            self._checkpoints,
            {"training": state, "policies": policies, "sharing": sharing, "scaler": scoring},
            run=self.run_id,
            threads=compute.threads,
            spaces=spaces_of(environment),
            played=lambda: policies.played(environment),
            every_rounds=spec.learner.checkpoint.every_rounds,
            listeners=self._listeners,
        )
        if self._checkpoint:
            checkpointing.restore(self._checkpoint, environment)
            state.actors = scaler.resumed(state.round, state.actors)
        if self._source is not None:
            adopt(self._source, policies, sharing, environment)
        for listener in self._listeners:
            listener.on_run_started(round=state.round, rounds=spec.stop.rounds, history=self._history)
            listener.on_round_requested(round=state.round + 1, actors=state.actors)
        if self._source is not None:
            await checkpointing.save_start()  # from now on the source is not needed
        fields = {"run": self.run_id, "round": state.round, "device": device_name()}
        logger.info("run started", extra={"fields": fields})
        return RoundRunner(
            spec=spec,
            run_id=self.run_id,
            backend=self._backend,
            cache=cache,
            dispatcher=dispatcher,
            compute=compute,
            policies=policies,
            sharing=sharing,
            feed=feed,
            scoring=scoring,
            evaluations=Evaluations(spec, self.run_id, dispatcher, state, checkpointing),
            checkpointing=checkpointing,
            state=state,
            meter=self._meter,
            billing=Billing(self._meter, dispatcher, self._backend),
            needs=needs,
            listeners=self._listeners,
            stop=self._stop,
        )

    async def _start(self) -> EnvironmentSpec:
        """Start the actors. What a start has cost is written down even if it fails."""
        try:
            return await unless(self._backend.start(), self._stop)
        except BaseException:
            if bills := self._backend.take_bills():
                self._meter.round(0, 0.0, bills, actors=0)
            raise

    async def _train(self, runner: RoundRunner) -> Outcome:
        try:
            self._ending = await self._train_until_end(runner)
            played = await runner.finish()
            return self._end(self._ending, runner.state.round, finished=True, played=played)
        except Interrupted:
            await runner.break_off()
            await runner.conclude()
            done = runner.state.round
            saved = f"after round {done}; its checkpoint is on disk"
            rest = saved if done else "in the first round; a resumed run begins with it"
            why = stop.StopReason("Interrupted", f"{self._interrupted} {rest}")
            return self._end(why, done, finished=False)
        except BaseException:
            await runner.break_off()
            raise

    async def _train_until_end(self, runner: RoundRunner) -> stop.StopReason:
        """Train round after round, and return why the run ends. Raises Interrupted."""
        try:
            while True:
                limits = self._limits() or self._spec.stop
                if reason := stop.decide(limits, runner.state.progress(self._meter.total.total)):
                    if not self._interrupted:  # a callback may have asked for the same end
                        self._stop.clear()
                    return reason
                if self._stop.is_set() or self._ending:
                    raise Interrupted
                self._follow_rounds(limits.rounds)
                await runner.run(limits)
        except Interrupted:
            if self._ending is None or self._interrupted:
                raise
            await runner.break_off()
            self._stop.clear()
            return self._ending

    def _follow_rounds(self, rounds: int) -> None:
        """Warn if a user has changed the number of rounds, and the learning rate falls over them."""
        before, self._rounds = self._rounds, rounds
        if rounds != before and self._spec.algorithm.anneals:
            logger.warning(
                "Its learning rate falls to zero over %d rounds, and spec.stop.rounds is %d now. The run "
                "goes on all the same, at the rate that a run of %d rounds has there.",
                before,
                rounds,
                rounds,
            )

    def _end(
        self,
        why: stop.StopReason,
        rounds: int,
        *,
        finished: bool,
        played: EvaluationResult | None = None,
    ) -> Outcome:
        if finished:
            self._meter.leave()
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
            evaluation_sets=played.set_means() if played else {},
            work=self._meter.work,
            pods=self._meter.pods,
            paid_pod_seconds=self._meter.paid_pod_seconds,
            drain_seconds=self._meter.left,
            estimated=self._meter.estimated,
        )
        for listener in self._listeners:
            listener.on_run_ended(outcome)
        logger.info("run ended", extra={"fields": {"reason": outcome.reason, "rounds": outcome.rounds}})
        return outcome
