"""Actors as processes of this machine, with their own Redis: the same server that runs in a pod."""

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from nitro_actor.processor import cores
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import Request
from nitro_api import JobSpec
from nitro_learner.backends.base import (
    ROLLOUT,
    AbandonedError,
    Ack,
    ActorBackend,
    BackendError,
    Evidence,
    FatalError,
    RetryableError,
    shown,
)
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.http import HttpClient
from nitro_learner.backends.output import ActorsLog, Output
from nitro_learner.backends.processes import ChildProcess, ProcessGroup, exit_of
from nitro_learner.backends.redis_server import MEMORY_BYTES, RedisServer

_START_SECONDS = 120.0  # imports of a user's environment module included
_POLL_SECONDS = 0.02
_END_SECONDS = 5.0
"""Time for a process to end after its connection broke: a crash may write a core dump first."""

_DUMP_SECONDS = 2.0
_FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM})
"""Signals that are not the environment's fault: from the kernel, when memory runs out, or from a person."""

Spawn = Callable[[str, Callable[[str], None]], Awaitable[ChildProcess]]
"""A function that starts an actor server process of a name; its lines of output go to the callback."""
_STOP_SECONDS = 2.0
_START_FAILURES = 3
_SUSPECT = frozenset({"connection", "timeout", "bad_answer", "busy", "draining", "starting", "unavailable"})
"""Reasons after which an actor process may be dead or hung: a fresh one takes its place."""
log = logging.getLogger(__name__)
_HARMLESS = re.compile(
    r"PATH|HOME|USER|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|PYTHON\w*|LD_\w+|SSL_CERT_\w+|DISPLAY"
    r"|NITRO_CODE|NITRO_CODE_SHA256"
    r"|(OMP|MKL|OPENBLAS|NUMEXPR|MUJOCO|SDL|PYOPENGL|EGL|MESA|XLA|JAX|CUDA|NVIDIA)_\w+"
)


class ActorProcess:
    """One place for an actor server; the process in it may change."""

    def __init__(self, client: HttpClient, log: ActorsLog, spawn: Spawn, index: int) -> None:
        self._client, self._log, self._spawn = client, log, spawn
        self.name = f"actor process {index}"
        self.process: ChildProcess | None = None
        self._output = Output(self.name, log)
        self.proven = False
        """Whether this process has done a request."""
        self.url = ""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    async def start(self) -> DescribedEnvironment:
        """Start a process and wait until its environment is built.

        Raises BackendError with its last words.
        """
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        output = self._output = Output(self.name, self._log)
        self.proven = False

        def read(line: str) -> None:
            port = None if listening.done() else _port(line)
            if port is not None:
                listening.set_result(port)
            else:
                output.hear(line)

        self.process = await self._spawn(self.name, read)
        try:
            port = await self.process.until(listening, _START_SECONDS)
            self.url = f"http://127.0.0.1:{port}"
            return await self.process.until(asyncio.create_task(self._spec()), _START_SECONDS)
        except BackendError as error:
            where = await self._standing()
            await self.process.stop()
            if not where:
                raise
            evidence = Evidence(environment=True, trace=self._output.stacks())
            raise BackendError(f"{error}\nIt stands in {where}", evidence) from error
        except BaseException:
            await self.process.stop()
            raise

    async def explained(self, error: RetryableError, timeout: float) -> RetryableError:
        """Find the cause of an error after which this process may be broken: its end, or where it hangs."""
        assert self.process is not None
        if error.reason == "timeout":
            return await self.hanging(timeout, error.billed_seconds)
        code = await self.process.ended(_END_SECONDS) if error.reason == "connection" else None
        if code is None:
            return error
        where = self._output.standing()
        how = f"exited with {exit_of(code)}" if code >= 0 else f"was ended by {exit_of(code)}"
        cause = "the environment, or a library that it uses, ended it"
        if code in _FROM_OUTSIDE:
            cause = "somebody ended it, or the kernel because memory ran out"
        return RetryableError(
            "died",
            f"the actor process {how} in the midst of a rollout{where and f', in {where}'}; {cause}",
            error.billed_seconds,
            # A fresh process with the same seed will fail in the same way.
            deterministic=not self.proven and code not in _FROM_OUTSIDE,
            evidence=self._evidence(environment=code not in _FROM_OUTSIDE),
        )

    async def hanging(self, timeout: float, seconds: float) -> RetryableError:
        """Find where a process hangs that did not answer in time, by a dump of its stack."""
        where = await self._standing()
        told = f"the actor did not answer in {timeout:g} s"
        if where:
            told = f"{where} hangs: {told}. If it only is slow, raise spec.actor.timeoutSeconds"
        return RetryableError("timeout", told, seconds, evidence=self._evidence(environment=bool(where)))

    async def _standing(self) -> str:
        """Which call of the environment this process is in now, and where; empty where it is in none, or is
        so stuck that it cannot say."""
        if self.process is None or not self.process.alive:
            return ""
        self.process.signal(signal.SIGUSR1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DUMP_SECONDS):
                await self._output.dumped.wait()
        return self._output.standing()

    def _evidence(self, *, environment: bool) -> Evidence:
        return Evidence(environment, self._output.stacks(), self._output.last_lines())

    async def _spec(self) -> DescribedEnvironment:
        while True:
            with contextlib.suppress(RetryableError):
                return await self._client.environment(self.url, _START_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)


def _port(line: str) -> int | None:
    try:
        event = json.loads(line)
        return int(event["port"]) if event["event"] == "listening" else None
    except (ValueError, TypeError, KeyError):
        return None


class LocalBackend(ActorBackend):
    """``processes`` actor servers on loopback (default: one per CPU) and a Redis; see ActorBackend.

    A process that dies or hangs is replaced, and so is the Redis; the dispatcher only sees a retry. What the
    actors print goes to the file ``output``. Besides their own environment variables actors have those of
    ``inherited``: all of this process, unless it holds what the environment's code must not read.
    """

    def __init__(
        self,
        spec: JobSpec,
        run: str,
        *,
        redis_bytes: int = MEMORY_BYTES,
        command: Sequence[str] = (sys.executable, "-m", "nitro_actor.server"),
        output: Path | None = None,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._run = run
        self._inherited = inherited
        self._command = list(command)
        self._size = processes_of(spec)
        self._token = secrets.token_urlsafe(32)
        self._environment = json.dumps(spec.environment.to_actor())
        self.client = HttpClient(self._token)
        self._capacity = Capacity(self._size)
        self._group = ProcessGroup()
        self._redis = RedisServer(self._group, redis_bytes)
        self._actors: list[ActorProcess] = []
        self._idle: deque[ActorProcess] = deque()
        self._start_failures = 0
        self._output = ActorsLog(output)
        self._starting: asyncio.Task[DescribedEnvironment] | None = None
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def redis_url(self) -> str:
        return self._redis.url

    def open_cache(self, run: str) -> RedisCache:
        return RedisCache(self.redis_url, run)

    @property
    def limit(self) -> int:
        return self._capacity.limit

    @property
    def in_use(self) -> int:
        return self._capacity.in_flight

    @property
    def actor_pids(self) -> list[int]:
        """Process ids of the actors that run now."""
        return [actor.process.pid for actor in self._actors if actor.alive and actor.process]

    @property
    def redis_pid(self) -> int | None:
        """Process id of the Redis."""
        return self._redis.process.pid if self._redis.process else None

    def set_limit(self, limit: int) -> None:
        """See ActorBackend. No more requests are sent at once than there are processes."""
        self._capacity.set_limit(min(limit, self._size))

    async def begin(self) -> None:
        """Have the start begin, for which `start` then waits: a learner has other things to do meanwhile."""
        self._starting = asyncio.create_task(self._start())

    def write_to(self, output: Path) -> None:
        """Keep what the actors print in this file from now on."""
        self._output.begin(output)

    async def start(self) -> DescribedEnvironment:
        """Start Redis and the actors side by side. Raises BackendError with an actor's last words."""
        if self._starting is None:
            await self.begin()
        assert self._starting is not None
        return await self._starting

    async def _start(self) -> DescribedEnvironment:
        try:
            await self._group.start()
            await self._redis.start()
            self._keep(self._watch_redis())
            self._actors = [
                ActorProcess(self.client, self._output, self._spawn_actor, index)
                for index in range(self._size)
            ]
            async with asyncio.TaskGroup() as starts:
                specs = [starts.create_task(actor.start()) for actor in self._actors]
            self._idle.extend(self._actors)
            return specs[0].result()
        except BaseExceptionGroup as failures:
            await self.close()
            raise failures.exceptions[0] from None  # all for one cause: the job's environment, the machine
        except BaseException:
            await self.close()
            raise

    async def invoke(self, request: Request, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        await self._capacity.acquire(priority)
        actor = self._idle.popleft()
        sound = False
        try:
            if not actor.alive:
                await self._revive(actor)
            ack = await self.client.rollout(actor.url, request.encode(), timeout)
            sound = actor.proven = True
            return ack
        except RetryableError as error:
            sound = actor.alive and error.reason not in _SUSPECT
            if sound:
                raise
            explained = await actor.explained(error, timeout)
            self._tell(actor.name, explained)
            raise explained from error
        except AbandonedError as abandoned:
            if abandoned.trouble is not None:  # it had all the time of a request
                abandoned.trouble = await actor.hanging(timeout, abandoned.seconds)
                self._tell(actor.name, abandoned.trouble)
            raise
        except FatalError:
            sound = actor.alive
            raise
        finally:
            # Also when this call was cancelled: the actor is still busy with a rollout that is not needed.
            if sound:
                self._put_back(actor)
            else:
                self._keep(self._replace(actor))

    async def close(self) -> None:
        if self._starting is not None and self._starting is not asyncio.current_task():
            self._starting.cancel()  # it closes what it has started
            await asyncio.gather(self._starting, return_exceptions=True)
        try:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.client.close()
            stops = [actor.process.stop(_STOP_SECONDS) for actor in self._actors if actor.process]
            await asyncio.gather(*stops, return_exceptions=True)
        finally:
            await self._group.close()  # Redis too, which has nothing to save
            self._output.close()

    async def _spawn_actor(self, name: str, on_line: Callable[[str], None]) -> ChildProcess:
        """Start one actor server process. Its port is not known yet."""
        variables = {
            "NITRO_ENVIRONMENT": self._environment,
            "NITRO_REDIS_URL": self._redis.url,
            "NITRO_TOKEN": self._token,
            "NITRO_HOST": "127.0.0.1",
            "PORT": "0",
        }
        return await self._group.spawn(name, self._command, variables, on_line, inherited=self._inherited)

    def _tell(self, name: str, error: RetryableError) -> None:
        """Warn of an actor's failure, once of each kind: a kind that comes again only goes to the log."""
        again = error.message in self._told
        self._told.add(error.message)
        level = logging.INFO if again else logging.WARNING
        log.log(level, "%s is replaced: %s%s", name, error.message, shown(error.evidence.output))

    def _put_back(self, actor: ActorProcess) -> None:
        self._idle.append(actor)
        self._capacity.release()

    async def _revive(self, actor: ActorProcess) -> None:
        try:
            await actor.start()
            self._start_failures = 0
        except BackendError as error:
            self._start_failures += 1
            if self._start_failures >= _START_FAILURES:
                message = f"actor processes do not start any more: {error}"
                raise FatalError(message, error.evidence) from error
            raise RetryableError("actor_start", str(error), evidence=error.evidence) from error

    async def _replace(self, actor: ActorProcess) -> None:
        try:
            if actor.process:
                await actor.process.stop()
            with contextlib.suppress(RetryableError, FatalError):  # the next request tries again and says so
                await self._revive(actor)
        finally:
            self._put_back(actor)

    async def _watch_redis(self) -> None:
        """Start Redis again, empty, when it died; the dispatcher then restores the weights."""
        while True:
            assert self._redis.process is not None
            code = await self._redis.process.wait()
            log.error("redis-server ended with code %s: starting it again, empty", code)
            try:
                await self._redis.start()
            except BackendError as error:
                log.error("redis-server does not start: %s", error)
                await asyncio.sleep(1.0)

    def _keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def harmless(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that say how programs run, and hold no secret: what actors in a learner's pod inherit.

    The pod's other variables are the learner's: keys of a bucket and of AWS, Redis' password, the token.
    """
    return {name: value for name, value in variables.items() if _HARMLESS.fullmatch(name)}


def processes_of(spec: JobSpec) -> int:
    """Actor processes of a resolved job on this machine."""
    wanted = spec.backend.local.processes if spec.backend.local else None
    if wanted:
        return int(wanted)
    return cores()
