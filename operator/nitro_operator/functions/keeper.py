"""All functions of all jobs: looked at in a queue of their own, so that AWS never holds up a reconcile."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from nitro_api import JobInvalid, resolve_stored
from nitro_api.lambda_backend import LambdaBackend
from nitro_operator.builders import JobView
from nitro_operator.cache import Cache
from nitro_operator.client import Kube
from nitro_operator.conditions import Condition
from nitro_operator.diagnosis import Problem
from nitro_operator.functions import finalizer, problems
from nitro_operator.functions.access import SecretUnusable, access_to, redis_url
from nitro_operator.functions.aws import Access, Aws, AwsError
from nitro_operator.functions.state import NOT_SEEN, FunctionState
from nitro_operator.functions.steward import Outcome, Steward
from nitro_operator.functions.wish import wish
from nitro_operator.kinds import TRAINING_JOB, JobKey, Object
from nitro_operator.observed import terminating
from nitro_operator.queue import WorkQueue, pause

logger = logging.getLogger(__name__)

WORKERS = 4
LOOK_TIMEOUT_SECONDS = 240.0
LOOK_SECONDS = 60.0
"""A function that is as it should be is looked at so often: somebody else may have changed it."""
CHANGING_SECONDS = 2.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 60.0
LET_GO_SECONDS = 600.0
"""So long after the job's deletion was asked for it goes, with or without its function."""


@dataclass(frozen=True)
class Want:
    """What a reconcile wants of a job's function."""

    view: JobView
    active: bool
    """Whether the job runs."""
    actors: int
    """Sandboxes to keep ready, where provisioned concurrency is on."""

    def differs(self, other: Want | None) -> bool:
        """Whether the function must be looked at anew."""
        if other is None or self.active != other.active or self.view is not other.view:
            return True
        function = self.view.spec.backend.lambda_
        provisioned = function is not None and function.provisioned_concurrency is not None
        return provisioned and self.actors != other.actors


@dataclass
class Memory:
    """Of one job; nothing that a restart may not forget."""

    uid: str
    want: Want | None = None
    access: Access | None = None
    """The last one that was complete."""
    state: FunctionState = NOT_SEEN
    published: tuple[str, str] | None = None
    healthy: str | None = None
    failures: int = 0
    told: set[str] = field(default_factory=set)


class Functions:
    """Keeps every job's function as the job wants it.

    Usage::

        functions = Functions(kube, cache, aws, tell, wake)
        functions.start()
        functions.want(key, Want(view, active=True, actors=8))
        functions.notice(key)            # its job is being deleted
        state = functions.state(key)
        await functions.stop()
    """

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        aws: Aws,
        tell: Callable[[Object, Condition], None],
        wake: Callable[[JobKey], None],
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._aws = aws
        self._tell = tell
        self._wake = wake
        self._memories: dict[JobKey, Memory] = {}
        self._queue: WorkQueue[JobKey] = WorkQueue(self.tend, WORKERS, LOOK_TIMEOUT_SECONDS)

    def start(self) -> None:
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()
        self._aws.close()

    @property
    def loops(self) -> Sequence[asyncio.Task[None]]:
        """What looks at functions; none of it ends before `stop`."""
        return self._queue.loops

    def state(self, key: JobKey) -> FunctionState:
        """What the last look found."""
        memory = self._memories.get(key)
        return memory.state if memory is not None else NOT_SEEN

    def want(self, key: JobKey, want: Want) -> None:
        """Take note of what a job wants; its function is looked at if that is new."""
        memory = self._memory(key, want.view.uid)
        new = want.differs(memory.want)
        memory.want = want
        if new:
            self._queue.add(key)

    def notice(self, key: JobKey) -> None:
        """A job is being deleted, or gone."""
        job = self._cache.job(key)
        if key in self._memories or (job is not None and finalizer.held(job)):
            self._queue.add(key)

    async def tend(self, key: JobKey) -> float | None:
        """Look at one function; returns seconds after which to look again, None = not until something is new.

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

    def _memory(self, key: JobKey, uid: str) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = Memory(uid)
        return memory

    # ------------------------------------------------------------ a job that is there

    async def _bring(self, job: Object, memory: Memory, want: Want) -> float | None:
        function = want.view.spec.backend.lambda_
        assert function is not None
        try:
            outcome = await self._look(job, memory, want, function)
        except (AwsError, SecretUnusable) as error:
            problem = _problem(error, function)
            # What cannot be seen now may well be there: only the problem is new.
            outcome = Outcome(memory.state.ready, problem if problem.warning else None, changing=True)
        if outcome.problem != memory.state.problem and outcome.problem is not None:
            logger.warning("%s: %s: %s", want.view.key, outcome.problem.reason, outcome.problem.message)
        # While AWS is at work, or cannot be seen, what it was asked for last still stands.
        provisioned = memory.state.provisioned if outcome.changing else outcome.provisioned
        memory.state = FunctionState(outcome.ready, outcome.problem, provisioned)
        if outcome.problem is not None:
            memory.failures += 1
            return pause(memory.failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
        memory.failures = 0
        if outcome.changing:
            return CHANGING_SECONDS
        if not want.active:
            return None
        return min(outcome.again or LOOK_SECONDS, LOOK_SECONDS) * random.uniform(0.75, 1.0)

    async def _look(self, job: Object, memory: Memory, want: Want, function: LambdaBackend) -> Outcome:
        view = want.view
        if not function.manage:
            if not want.active:
                return Outcome(ready=False)
            access = await access_to(self._kube, view.namespace, function)
            steward = Steward(self._aws, access, function.function_name)
            outcome, revision = await steward.check(function, view, memory.healthy)
            memory.healthy = revision if outcome.ready else None
            return outcome
        if not finalizer.held(job):
            if not want.active:
                return Outcome(ready=False)  # nothing was made for it
            marked = await finalizer.put(self._kube, job)
            if marked is None:
                return Outcome(ready=False)  # it has been deleted meanwhile
            self._cache.put(TRAINING_JOB, marked)
        memory.access = access = await access_to(self._kube, view.namespace, function)
        wanted = wish(view, await redis_url(self._kube, view.namespace, function))
        steward = Steward(self._aws, access, wanted.name)
        outcome = await steward.bring(
            wanted,
            memory.uid,
            active=want.active,
            actors=want.actors,
            published=memory.published,
            again=memory.failures > 0,
        )
        memory.published = outcome.code_key
        if outcome.failed and memory.failures > 0:
            await steward.remove(memory.uid)
        return outcome

    # ------------------------------------------------------------ a job that is going

    async def _remove(self, key: JobKey, job: Object, memory: Memory) -> float | None:
        """Remove the function, then let the job go; in the end it goes without."""
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
        logger.info("%s: its function is done with, and the job may go", key)
        return None

    async def _try_to_remove(self, key: JobKey, job: Object, memory: Memory) -> Problem | None:
        try:
            function = resolve_stored(job).spec.backend.lambda_
        except (JobInvalid, ValidationError) as error:
            return Problem("InvalidSpec", f"the job cannot be read: {error}")
        if function is None or not function.manage:
            return None
        try:
            access = await self._access(key.namespace, function, memory)
            await Steward(self._aws, access, function.function_name).remove(memory.uid)
        except (AwsError, SecretUnusable) as error:
            return _problem(error, function)
        return None

    async def _access(self, namespace: str, function: LambdaBackend, memory: Memory) -> Access:
        """As the Secret says now; where it went first, with its namespace, as it said last."""
        try:
            memory.access = await access_to(self._kube, namespace, function)
        except SecretUnusable:
            if memory.access is None:
                raise
        return memory.access

    def _tell_once(self, job: Object, memory: Memory, problem: Problem) -> None:
        if problem.reason not in memory.told:
            memory.told.add(problem.reason)
            self._tell(job, Condition("Deleted", False, problem.reason, problem.message, warning=True))


def _problem(error: AwsError | SecretUnusable, function: LambdaBackend) -> Problem:
    if isinstance(error, SecretUnusable):
        return error.problem
    return problems.refusal(error, function.function_name)
