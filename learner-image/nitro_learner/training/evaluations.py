"""Evaluations beside the rounds: one is started with a round and joined at its end."""

import asyncio
import logging
from dataclasses import replace

from nitro_api import JobSpec
from nitro_learner.backends.cache.base import CacheError
from nitro_learner.sampling import evaluation
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import EvaluationResult, RoundFailed
from nitro_learner.training.checkpointing import Checkpointing
from nitro_learner.training.state import TrainingState
from nitro_learner.training.waiting import Interrupted, unless

logger = logging.getLogger(__name__)

STOP_SECONDS = 20.0
"""How long a run that is to stop waits for an evaluation."""


class Evaluations:
    """Evaluations of a run's published weights::

    evaluating = evaluations.start(version)
    result = await evaluations.join(evaluating, stop)   # the state has taken it in
    """

    def __init__(
        self,
        spec: JobSpec,
        run: str,
        dispatcher: Dispatcher,
        state: TrainingState,
        checkpointing: Checkpointing,
    ) -> None:
        self._spec = spec
        self._run = run
        self._dispatcher = dispatcher
        self._state = state
        self._checkpointing = checkpointing

    @property
    def requests(self) -> int:
        """Requests of one evaluation at a time."""
        return max(plan.slots for plan in evaluation.plans(self._spec, self._run, 0).values())

    def start(self, version: int) -> asyncio.Task[EvaluationResult]:
        """Start to evaluate published weights, which are those of the policies now."""
        self._checkpointing.propose(self._state.round)
        return asyncio.create_task(self._play(version))

    async def _play(self, version: int) -> EvaluationResult:
        """Play one set after the other, so that an evaluation takes as many actors as one set. A set but the
        first may fail."""
        played: dict[str, EvaluationResult] = {}
        for name, plan in evaluation.plans(self._spec, self._run, version).items():
            try:
                played[name] = await self._dispatcher.evaluate(plan)
            except (RoundFailed, CacheError) as error:
                if not played:
                    raise
                logger.warning("The evaluation %s in round %d failed: %s", name, self._state.round, error)
        first = next(iter(played.values()))
        return first if "" in played else replace(first, sets=played)

    async def join(
        self, evaluating: asyncio.Task[EvaluationResult] | None, stop: asyncio.Event
    ) -> EvaluationResult | None:
        """Wait for an evaluation. If it failed, log a warning and return None: the run goes on. When the
        run is to stop, the evaluation gets STOP_SECONDS more, because the learner may soon be killed.

        Raises:
            CheckpointError: it was the best one, and its policy could not be written.
        """
        if evaluating is None:
            return None
        late = asyncio.Event()
        timer = asyncio.create_task(_set_late(late, stop))
        try:
            result = await unless(evaluating, late)
        except Interrupted:
            logger.warning("The run stops, so the evaluation in round %d is given up", self._state.round)
            return None
        except (RoundFailed, CacheError) as error:
            logger.warning("The evaluation in round %d failed: %s", self._state.round, error)
            return None
        finally:
            timer.cancel()
        self._state.take_evaluation(result)
        assert self._state.evaluation_mean is not None, "the state has taken it in"
        await self._checkpointing.save_best(self._state.evaluation_mean)
        return result


async def _set_late(late: asyncio.Event, stop: asyncio.Event) -> None:
    await stop.wait()
    await asyncio.sleep(STOP_SECONDS)
    late.set()
