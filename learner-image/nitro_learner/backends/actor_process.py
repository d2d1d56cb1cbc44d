"""An actor server as a process of this machine: its start, and the causes of its failures."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Awaitable, Callable

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.backends.base import BackendError, Evidence, RetryableError
from nitro_learner.backends.http import HttpClient
from nitro_learner.backends.output import ActorsLog, Output
from nitro_learner.backends.processes import ChildProcess, exit_of

_START_SECONDS = 120.0  # imports of a user's environment module included
_POLL_SECONDS = 0.02
_END_SECONDS = 5.0
"""Time for a process to end after its connection broke: a crash may write a core dump first."""

_DUMP_SECONDS = 2.0
_FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM})
"""Signals that are not the environment's fault: from the kernel, when memory runs out, or from a person."""

Spawn = Callable[[str, Callable[[str], None]], Awaitable[ChildProcess]]
"""A function that starts an actor server process of a name; its lines of output go to the callback."""


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
        """Find where a process hangs that did not answer in time, by a dump of its stacks."""
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
