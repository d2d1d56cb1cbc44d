"""One execution environment: the function's process, and the Runtime API that it works by.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from lambda_front.knobs import Function

INIT_SECONDS = 10.0
"""Lambda's limit of the init phase; what takes longer is done in the first invocation."""


@dataclass
class Event:
    """One invocation on its way through a sandbox."""

    id: str
    body: bytes
    arn: str
    deadline: float
    answer: "asyncio.Future[Answer]"
    hangs: bool = False


@dataclass
class Answer:
    """What the function answered; `error` is the header X-Amz-Function-Error, empty for none."""

    body: bytes
    error: str = ""


_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """A frozen process would outlive a test that was killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class SandboxDied(Exception):  # noqa: N818
    """The process ended: how, in Lambda's words, and its init phase's own error where it reported one."""

    def __init__(self, how: str, body: bytes | None = None) -> None:
        super().__init__(how)
        self.body = body


class Sandbox:
    """A process under awslambdaric, frozen whenever it waits for work, as Lambda does."""

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self.function = function
        self.init_seconds: float | None = None
        """Of an init phase within its limit; None where the first invocation has to pay for it."""
        self.directory = Path(tempfile.mkdtemp(prefix="lambda-sandbox-"))
        """What is /tmp in a sandbox of Lambda."""
        self.lines: deque[str] = deque(maxlen=200)
        self._ready = asyncio.Event()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()  # None: there will be no more
        self._event: Event | None = None
        self._init_error: bytes | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._ended: asyncio.Task[None] | None = None
        self._runner: web.AppRunner | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Runs the init phase. Raises SandboxDied, or TimeoutError after its limit."""
        address = await self._listen()
        began = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *self.function.command,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                **self.function.environment,
                "AWS_LAMBDA_RUNTIME_API": address,
                "AWS_LAMBDA_FUNCTION_NAME": self.name,
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.function.memory_mib),
                "TMPDIR": str(self.directory),
                "HOME": str(self.directory),
            },
            cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self._ended = asyncio.create_task(self._read())
        await self._until(self._ready.wait(), INIT_SECONDS)
        self.init_seconds = time.monotonic() - began

    async def run(self, event: Event) -> Answer:
        """One invocation. Raises SandboxDied or TimeoutError; the sandbox is then of no more use."""
        self._events.put_nowait(event)
        return await self._until(event.answer, event.deadline - time.time())

    def peak_mib(self) -> int:
        """Most memory that the process ever had."""
        assert self._process is not None
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0
        kib = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        return -(-kib // 1024)

    async def kill(self) -> None:
        """Kills the whole sandbox."""
        self._signal(signal.SIGKILL)
        if self._ended is not None:
            await self._ended

    async def close(self) -> None:
        """Kills it and removes what it left."""
        await self.kill()
        self._events.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()
        shutil.rmtree(self.directory, ignore_errors=True)

    async def _until(self, what: "asyncio.Future[Answer] | object", seconds: float) -> "Answer":
        waiting = asyncio.ensure_future(what)  # type: ignore[arg-type]
        assert self._ended is not None
        try:
            await asyncio.wait({waiting, self._ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()  # type: ignore[no-any-return]
            if self._ended.done():
                raise SandboxDied(self._how_it_ended(), self._init_error)
            raise TimeoutError
        finally:
            waiting.cancel()

    def _how_it_ended(self) -> str:
        assert self._process is not None
        code = self._process.returncode or 0
        if code < 0:
            return (
                f"signal: {signal.Signals(-code).name.removeprefix('SIG').lower().replace('kill', 'killed')}"
            )
        return f"exit status {code}"

    def _signal(self, number: signal.Signals) -> None:
        if self.alive and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _read(self) -> None:
        """Its log, for as long as it lives."""
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self.lines.append(line.decode(errors="replace").rstrip("\n"))
        await self._process.wait()

    async def _listen(self) -> str:
        app = web.Application(client_max_size=16 * 2**20)
        app.add_routes(
            [
                web.get("/2018-06-01/runtime/invocation/next", self._next),
                web.post("/2018-06-01/runtime/invocation/{id}/response", self._response),
                web.post("/2018-06-01/runtime/invocation/{id}/error", self._error),
                web.post("/2018-06-01/runtime/init/error", self._failed_init),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"127.0.0.1:{self._runner.addresses[0][1]}"

    async def _next(self, request: web.Request) -> web.Response:  # noqa: ARG002
        self._ready.set()
        if self._events.empty():
            self._signal(signal.SIGSTOP)
        event = self._event = await self._events.get()
        if event is None:
            return web.Response(status=500)
        self._signal(signal.SIGSTOP if event.hangs else signal.SIGCONT)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": event.id,
            "Lambda-Runtime-Deadline-Ms": str(int(event.deadline * 1e3)),
            "Lambda-Runtime-Invoked-Function-Arn": event.arn,
        }
        return web.Response(body=event.body, headers=headers, content_type="application/json")

    async def _response(self, request: web.Request) -> web.Response:
        return await self._answered(request, "")

    async def _error(self, request: web.Request) -> web.Response:
        return await self._answered(request, "Unhandled")

    async def _answered(self, request: web.Request, error: str) -> web.Response:
        try:
            body = await request.read()
        except ConnectionResetError:  # killed while it was answering
            return web.Response(status=500)
        event = self._event
        if event is None or event.id != request.match_info["id"]:
            return web.json_response({"errorType": "InvalidRequestID"}, status=400)
        self._event = None
        if not event.answer.done():
            event.answer.set_result(Answer(body, error))
        return web.json_response({"status": "OK"}, status=202)

    async def _failed_init(self, request: web.Request) -> web.Response:
        self._init_error = await request.read()
        return web.json_response({"status": "OK"}, status=202)
