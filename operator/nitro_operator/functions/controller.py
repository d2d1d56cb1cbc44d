"""The controller of all jobs' functions. It has a work queue of its own, so AWS never delays a reconcile."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from nitro_api import resolve_stored
from nitro_api.spec.lambda_backend import LambdaBackendSpec
from nitro_operator.functions import finalizer, problems
from nitro_operator.functions.access import NoAccess, access_to, job_token, redis_url
from nitro_operator.functions.aws import Access, Aws
from nitro_operator.functions.desired import desired_function
from nitro_operator.functions.reconciler import FunctionOutcome, FunctionReconciler
from nitro_operator.functions.state import NOT_SEEN, FunctionMemory, FunctionState, Want
from nitro_operator.kube import names
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import LEARNER_JOB, TRAINING_JOB, JobKey, Object
from nitro_operator.kube.queue import WorkQueue, pause
from nitro_operator.kube.slim import whole_spec
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import terminating
from nitro_operator.status.conditions import Condition

logger = logging.getLogger(__name__)

WORKERS = 4
LOOK_TIMEOUT_SECONDS = 240.0
LOOK_SECONDS = 60.0
"""Time between two looks at a function that needs no change: somebody else may change it."""
CHANGING_SECONDS = 2.0
QUICK_TRIES = 5
"""Tries in a row that may fail for a reason which passes by itself, such as another change at AWS. If it
lasts longer, the job says why, and the function is tried less often."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 60.0
LET_GO_SECONDS = 600.0
"""Time after which a deleted job is removed, even if its function still exists."""


class FunctionController:
    """Keep every job's function as the job requires it."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        aws: Aws,
        tell: Callable[[Object, Condition], None],
        wake: Callable[[JobKey], None],
        endpoints: Collection[str],
    ) -> None:
        self._endpoints = endpoints
        self._kube = kube
        self._cache = cache
        self._aws = aws
        self._tell = tell
        self._wake = wake
        self._memories: dict[JobKey, FunctionMemory] = {}
        self._queue: WorkQueue[JobKey] = WorkQueue(self.tend, WORKERS, LOOK_TIMEOUT_SECONDS)

    def start(self) -> None:
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()
        self._aws.close()

    @property
    def loops(self) -> Sequence[asyncio.Task[None]]:
        """The tasks that work on functions; none of them ends before `stop`."""
        return self._queue.loops

    def state(self, key: JobKey) -> FunctionState:
        """The state that the last look found. That of a deleted job of the same name does not count."""
        memory, job = self._memories.get(key), self._cache.job(key)
        if memory is None or job is None or memory.uid != job["metadata"]["uid"]:
            return NOT_SEEN
        return memory.state

    def want(self, key: JobKey, want: Want) -> None:
        """Note what a job requires of its function; if it is new, the function is queued."""
        memory = self._memory(key, want.view.uid)
        new = want.differs(memory.want) and not memory.waits(want)
        memory.want = want
        if new:
            self._queue.add(key)

    def notice(self, key: JobKey) -> None:
        """Queue the function of a job that is being deleted, or is gone: once each, because later looks have
        their times."""
        job = self._cache.job(key)
        if job is None:
            if key in self._memories:
                self._queue.add(key, at_once=True)
        elif finalizer.held(job):
            memory = self._memory(key, job["metadata"]["uid"])
            if not memory.leaving:
                memory.leaving = True
                self._queue.add(key, at_once=True)

    async def tend(self, key: JobKey) -> float | None:
        """Look at one function. Returns seconds until the next look; None if only a new event needs one.

        Raises:
            ApiError: Kubernetes' API cannot be reached; the queue tries again.
        """
        job = self._cache.job(key)
        if job is None:
            self._memories.pop(key, None)
            self._queue.forget(key)
            return None
        memory = self._memory(key, job["metadata"]["uid"])
        if terminating(job):
            return await self._remove(key, job, memory) if finalizer.held(job) else None
        if memory.want is None:
            return None
        before = memory.state
        after = await self._bring(job, memory, memory.want)
        if memory.state != before:
            self._wake(key)
        return after

    def _memory(self, key: JobKey, uid: str) -> FunctionMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = FunctionMemory(uid)
        return memory

    # ------------------------------------------------------------ existing jobs

    async def _bring(self, job: Object, memory: FunctionMemory, want: Want) -> float | None:
        function = want.view.spec.backend.lambda_
        assert function is not None
        try:
            outcome = await self._look(job, memory, want, function)
        except ApiError:
            raise
        except Exception as error:
            problem = problems.of(error, function.function_name)
            memory.busy = 0 if problem.warning else memory.busy + 1
            told = problem.warning or memory.busy > QUICK_TRIES
            # A function that cannot be read now may still be there: only the problem is new.
            outcome = FunctionOutcome(memory.state.ready, problem if told else None, changing=True)
        else:
            memory.busy = 0
        if outcome.problem != memory.state.problem and outcome.problem is not None:
            logger.warning("%s: %s: %s", want.view.key, outcome.problem.reason, outcome.problem.message)
        # While AWS works or is silent, the last request and the reason of the last failure are still valid.
        if not outcome.changing:
            memory.broken = outcome.problem if outcome.failed else None
        provisioned = memory.state.provisioned if outcome.changing else outcome.provisioned
        memory.state = FunctionState(outcome.ready, outcome.problem or memory.broken, provisioned)
        memory.due = outcome.problem is not None
        if memory.due:
            memory.failures += 1
            return pause(memory.failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
        if outcome.changing:
            return CHANGING_SECONDS
        memory.failures = 0
        if not want.active:
            return None
        return min(outcome.again or LOOK_SECONDS, LOOK_SECONDS) * random.uniform(0.75, 1.0)

    async def _look(
        self, job: Object, memory: FunctionMemory, want: Want, function: LambdaBackendSpec
    ) -> FunctionOutcome:
        view = want.view
        if not function.manage:
            if not want.active:
                return FunctionOutcome(ready=False)
            access = await access_to(self._kube, view.namespace, function, self._endpoints)
            reconciler = FunctionReconciler(self._aws, access, function.function_name)
            outcome, revision = await reconciler.check(function, view, memory.healthy)
            memory.healthy = revision if outcome.ready else None
            return outcome
        if not finalizer.held(job):
            if not want.active:
                return FunctionOutcome(ready=False)  # nothing was made for it
            marked = await finalizer.put(self._kube, job)
            if marked is None:
                return FunctionOutcome(ready=False)  # it has been deleted meanwhile
            self._cache.put(TRAINING_JOB, marked)
        memory.access = access = await access_to(self._kube, view.namespace, function, self._endpoints)
        learner = self._cache.get(LEARNER_JOB, view.key, names.learner(view.name))
        token = await job_token(self._kube, view, create=learner is None)
        wanted = desired_function(view, await redis_url(self._kube, view.namespace, function), token)
        reconciler = FunctionReconciler(self._aws, access, wanted.name)
        outcome = await reconciler.bring(
            wanted,
            memory.uid,
            active=want.active,
            actors=want.actors,
            published=memory.published,
            again=memory.due,
        )
        memory.published = outcome.code_key
        if outcome.failed and not outcome.ready and memory.due:
            await reconciler.remove(memory.uid)
        return outcome

    # ------------------------------------------------------------ deleted jobs

    async def _remove(self, key: JobKey, job: Object, memory: FunctionMemory) -> float | None:
        """Remove the function, then release the job. After LET_GO_SECONDS the job is released anyway."""
        problem = await self._try_to_remove(key, job, memory)
        asked = datetime.fromisoformat(job["metadata"]["deletionTimestamp"])
        left = LET_GO_SECONDS - (self._kube.server_now() - asked).total_seconds()
        if problem is not None and left > 0:
            self._tell_once(job, memory, problems.waits(problem, left))
            memory.failures += 1
            return min(pause(memory.failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS), left + 0.1)
        if problem is not None:
            self._tell_once(job, memory, problems.left_behind(problem, job))
        await finalizer.drop(self._kube, job)
        logger.info("%s: its function is removed or given up, and the job is released", key)
        return None

    async def _try_to_remove(self, key: JobKey, job: Object, memory: FunctionMemory) -> Problem | None:
        try:
            function = resolve_stored({**job, "spec": whole_spec(job)}).spec.backend.lambda_
        except Exception as error:  # whatever it is, the job must not stay for ever
            return Problem("InvalidSpec", f"the job cannot be read: {error}")
        if function is None or not function.manage:
            return None
        try:
            access = await self._access(key.namespace, function, memory)
            await FunctionReconciler(self._aws, access, function.function_name).remove(memory.uid)
        except ApiError as error:
            return Problem("ApiUnavailable", f"its Secret cannot be read: {error.reason}")
        except Exception as error:
            return problems.of(error, function.function_name)
        return None

    async def _access(self, namespace: str, function: LambdaBackendSpec, memory: FunctionMemory) -> Access:
        """The access that the Secret gives now. If the Secret is already deleted, the last known access."""
        try:
            memory.access = await access_to(self._kube, namespace, function, self._endpoints)
        except NoAccess:
            if memory.access is None:
                raise
        return memory.access

    def _tell_once(self, job: Object, memory: FunctionMemory, problem: Problem) -> None:
        if problem.reason not in memory.told:
            memory.told.add(problem.reason)
            self._tell(job, Condition("Deleted", False, problem.reason, problem.message, warning=True))
