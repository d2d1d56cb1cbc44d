"""The Invoke API: which sandbox an invocation runs in, what it is answered with, and what it costs.

https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from lambda_front.bill import Bill, tail
from lambda_front.control import ControlPlane
from lambda_front.knobs import Faults, Function, Knobs
from lambda_front.sandbox import Answer, Event, Sandbox, SandboxDied
from lambda_front.signature import check_signature

PAYLOAD_BYTES = 6 * 2**20
RESPONSE_BYTES = 6_291_556
"""Lambda's own numbers."""

_DEATH_SECONDS = 0.01
"""How far into an invocation, in which it hangs, a sandbox is killed."""


class Refused(Exception):  # noqa: N818
    """An error of the Invoke API: HTTP status and exception."""

    def __init__(self, status: int, kind: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind
        self.body = {"Type": "User" if status < 500 else "Service", "Message": message, **more}


class Front:
    """Lambda for tests.

    Args:
        functions: by name; any other is looked up in the control plane.
        knobs: see there; may be changed while it runs.
        control_plane: URL of a moto server that keeps functions; what is no invocation is passed on to it.
        secret_key: what requests must be signed with; None takes any.
    """

    def __init__(
        self,
        functions: Mapping[str, Function] | None = None,
        knobs: Knobs | None = None,
        *,
        control_plane: str | None = None,
        secret_key: str | None = None,
    ) -> None:
        self.functions = dict(functions or {})
        self.knobs = knobs or Knobs()
        self.faults = Faults(self.knobs)
        self.bills: list[Bill] = []
        self.running = self.most = 0
        self.refused: list[str] = []
        """Reasons of requests that never ran."""
        self.on_refusal: Callable[[], object] = lambda: None
        self._control = ControlPlane(control_plane) if control_plane else None
        self._secret_key = secret_key
        self._idle: dict[str, list[Sandbox]] = {}
        self._sandboxes: set[Sandbox] = set()

    @property
    def sandboxes(self) -> list[Sandbox]:
        """Those that live."""
        return list(self._sandboxes)

    def app(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=16 * 2**20)
        app.add_routes(
            [
                web.post("/2015-03-31/functions/{name}/invocations", self._invoke),
                web.get("/front/bills", self._tell_bills),
                web.put("/front/knobs", self._turn),
            ]
        )
        if self._control is not None:
            app.router.add_route("*", "/{path:.*}", self._control.forward)
        return app

    async def close(self) -> None:
        """Kills all sandboxes."""
        await asyncio.gather(*(sandbox.close() for sandbox in self._sandboxes))
        if self._control is not None:
            await self._control.close()

    async def _invoke(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            if self._secret_key is not None:
                check_signature(request, body, self._secret_key)
            fault = self.faults.next()
            return await self._admitted(request, body, fault)
        except Refused as error:
            self.refused.append(error.body.get("Reason", error.kind))
            self.on_refusal()
            return web.json_response(
                error.body, status=error.status, headers={"X-Amzn-ErrorType": error.kind}
            )
        except PermissionError as error:
            return web.json_response(
                {"message": str(error)}, status=403, headers={"X-Amzn-ErrorType": "InvalidSignatureException"}
            )

    async def _admitted(self, request: web.Request, body: bytes, fault: str | None) -> web.StreamResponse:
        """Checks what Lambda checks before anything runs, then runs."""
        if fault == "service_error":
            raise Refused(500, "ServiceException", "An error occurred and the request cannot be processed.")
        if fault == "throttled" or self.running >= self.knobs.concurrency:
            raise Refused(429, "TooManyRequestsException", "Rate Exceeded.", Reason=self.knobs.reason)
        name = request.match_info["name"]
        function = self.functions.get(name)
        if function is None and self._control is not None:
            function = await self._control.function(request)
        if function is None:
            raise Refused(404, "ResourceNotFoundException", f"Function not found: {name}")
        if len(body) > PAYLOAD_BYTES:
            raise Refused(
                413, "RequestTooLargeException", f"Request must be smaller than {PAYLOAD_BYTES} bytes"
            )
        try:
            json.loads(body)
        except ValueError as error:
            raise Refused(
                400, "InvalidRequestContentException", f"Could not parse request: {error}"
            ) from error
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            bill, answer, log = await self._run(name, function, body, fault)
        finally:
            self.running -= 1
        self._account(bill)
        if fault == "lost":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return await self._send(request, answer, log)

    async def _run(
        self, name: str, function: Function, body: bytes, fault: str | None
    ) -> tuple[Bill, Answer, str]:
        """One invocation in a warm sandbox, or in a new one."""
        identity = str(uuid.uuid4())
        arn = f"arn:aws:lambda:us-east-2:123456789012:function:{name}"
        idle = self._idle.setdefault(name, [])
        while idle and not idle[-1].alive:
            await self._discard(idle.pop())
        cold, init = not idle, None
        sandbox = Sandbox(name, function) if cold else idle.pop()
        outcome, answer = "ok", Answer(b"")
        began = time.monotonic()
        try:
            if cold:
                self._sandboxes.add(sandbox)
                await asyncio.sleep(self.knobs.cold_start_seconds)
                began = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await sandbox.start()
                init = sandbox.init_seconds
            sandbox.lines.clear()
            if not cold or init is not None:
                began = time.monotonic()
            waiting = asyncio.get_running_loop().create_future()
            deadline = time.time() + function.timeout_seconds
            event = Event(identity, body, arn, deadline, waiting, hangs=fault in ("timeout", "death"))
            running = asyncio.create_task(sandbox.run(event))
            if fault == "death":
                await asyncio.sleep(_DEATH_SECONDS)
                await sandbox.kill()
            answer = await running
        except TimeoutError:
            outcome = "timeout"
            text = f"RequestId: {identity} Error: Task timed out after {function.timeout_seconds:.2f} seconds"
            answer = _error("Sandbox.Timedout", text)
        except SandboxDied as died:
            outcome = "death"
            text = f"RequestId: {identity} Error: Runtime exited with error: {died}"
            answer = Answer(died.body, "Unhandled") if died.body else _error("Runtime.ExitError", text)
        seconds, used = time.monotonic() - began, sandbox.peak_mib()
        if outcome == "ok" and used > function.memory_mib:
            outcome = "death"
            answer = _error(
                "Runtime.ExitError", f"RequestId: {identity} Error: Runtime exited: signal: killed"
            )
        if outcome == "ok" and len(answer.body) > RESPONSE_BYTES:
            text = f"Response payload size exceeded maximum allowed payload size ({RESPONSE_BYTES} bytes)."
            answer = _error("Function.ResponseSizeTooLarge", text)
        if outcome == "ok":
            idle.append(sandbox)
        else:
            await self._discard(sandbox)  # as AWS does: the whole sandbox goes
        told = "lost" if fault == "lost" else "error" if answer.error and outcome == "ok" else outcome
        bill = Bill(identity, seconds, init, function.memory_mib, used, told != "lost", told)
        log = tail(
            [f"START RequestId: {identity} Version: $LATEST", *sandbox.lines, f"END RequestId: {identity}"],
            bill.report(as_json=self.knobs.json_logs),
        )
        return bill, answer, log

    async def _send(self, request: web.Request, answer: Answer, log: str) -> web.StreamResponse:
        """The answer, over a link as slow as the knobs say."""
        delay = self.knobs.answer_delay_seconds
        if self.knobs.bytes_per_second:
            delay += len(answer.body) / self.knobs.bytes_per_second
        await asyncio.sleep(delay)
        headers = {"X-Amz-Executed-Version": "$LATEST"}
        if request.headers.get("X-Amz-Log-Type") == "Tail":
            headers["X-Amz-Log-Result"] = log
        if answer.error:
            headers["X-Amz-Function-Error"] = answer.error
        return web.Response(body=answer.body, headers=headers, content_type="application/json")

    def _account(self, bill: Bill) -> None:
        self.bills.append(bill)
        if self.knobs.billing_file is not None:
            with self.knobs.billing_file.open("a") as file:
                file.write(json.dumps(bill.to_json()) + "\n")

    async def _discard(self, sandbox: Sandbox) -> None:
        self._sandboxes.discard(sandbox)
        await sandbox.close()

    async def _tell_bills(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.json_response([bill.to_json() for bill in self.bills])

    async def _turn(self, request: web.Request) -> web.Response:
        """Sets knobs, and what the next invocations meet as `script`."""
        for name, value in (await request.json()).items():
            if name == "script":
                self.faults.script = list(value)
                continue
            if not hasattr(self.knobs, name):
                return web.json_response({"error": f"there is no knob {name}"}, status=400)
            setattr(self.knobs, name, value)
        return web.json_response({})


def _error(kind: str, message: str) -> Answer:
    return Answer(json.dumps({"errorType": kind, "errorMessage": message}).encode(), "Unhandled")


@asynccontextmanager
async def serve(front: Front, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[Front, str]]:
    """The front and its URL; its sandboxes are gone afterwards."""
    runner = web.AppRunner(front.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    try:
        yield front, f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await front.close()
