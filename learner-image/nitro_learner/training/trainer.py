"""The training loop: one job from its first round, or from a checkpoint, to its stop condition.

The trainer starts the actors, builds what learns, and has a `RoundRunner` train round after round until a
stop condition holds. Compute runs in threads; the event loop stays free for the actors.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api.spec.stop import Stop
from nitro_learner import scalers
from nitro_learner.algorithms import registry
from nitro_learner.backends.base import ActorBackend, BackendError
from nitro_learner.backends.cache.base import CacheError
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.sampling.dispatch import ActorSampler
from nitro_learner.sampling.plans import EvaluationResult, RoundFailed
from nitro_learner.scalers import Scaler
from nitro_learner.training import failures, stop
from nitro_learner.training.builder import Sitting, build
from nitro_learner.training.compute import Compute
from nitro_learner.training.costs import Meter
from nitro_learner.training.device import device_name
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.round_report import Listener, Outcome
from nitro_learner.training.round_runner import RoundRunner
from nitro_learner.training.waiting import Interrupted, unless

logger = logging.getLogger(__name__)


class Trainer:
    """Train one job.

        trainer = Trainer(Sitting(job, "5f3a", store, store.latest()), backend, meter)
        loop.add_signal_handler(signal.SIGINT, trainer.interrupt)
        outcome = await trainer.run()

    Args:
        backend: where actors run; the trainer starts and closes it.
        listeners: receive the run's events; an error of one that is not essential is a warning.
        scaler: used in place of the scaler that the job names.
        limits: returns the current spec.stop; None means the job's own.

    Attributes:
        environment: of the actors, once they have started.
    """

    def __init__(
        self,
        sitting: Sitting,
        backend: ActorBackend,
        meter: Meter,
        *,
        listeners: Sequence[Listener] = (),
        scaler: Scaler | None = None,
        limits: Callable[[], Stop | None] = lambda: None,
    ) -> None:
        self._sitting = sitting
        self._spec = sitting.job.spec
        self._backend = backend
        self._meter = meter
        self._listeners = Listeners(listeners)
        self._scaler = scaler
        self._limits = limits
        self._rounds = self._spec.stop.rounds
        self._stop = asyncio.Event()
        self._interrupted: str | None = None
        self._ending: stop.StopReason | None = None
        self.environment: DescribedEnvironment | None = None

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
                try:
                    runner = await self._open(stack, compute)
                except Interrupted:
                    saved = self._sitting.checkpoint
                    done = saved.round if saved else 0
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
        scaler = self._scaler or scalers.make(self._spec)
        registry.load_own(self._spec, scaler.needs)  # before actors start for it
        sampler = await self._start(stack)
        self.environment = sampler.environment
        runner = await build(
            self._sitting, sampler, compute, scaler, self._meter, self._listeners, self._stop
        )
        stack.callback(runner.learner.policies.close)
        device = device_name(self._spec.learner.device)
        fields = {"run": self._sitting.id, "round": runner.state.round, "device": device}
        logger.info("run started", extra={"fields": fields})
        return runner

    async def _start(self, stack: contextlib.AsyncExitStack) -> ActorSampler:
        """Start the actors. What a start has cost is written down even if it fails."""
        try:
            opening = ActorSampler.open(stack, self._spec, self._sitting.id, self._backend)
            return await unless(opening, self._stop)
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
                if runner.learner.policies.ended:
                    return stop.StopReason("LoopEnded", f"the loop returned after round {runner.state.round}")
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
        self._listeners.tell(lambda listener: listener.on_run_ended(outcome))
        logger.info("run ended", extra={"fields": {"reason": outcome.reason, "rounds": outcome.rounds}})
        return outcome
