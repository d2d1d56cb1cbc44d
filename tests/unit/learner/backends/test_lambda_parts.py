"""The parts of the Lambda backend that need no function: signature, report, errors, cache, constants."""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials, RefreshableCredentials

from nitro_actor import parcel
from nitro_actor.protocol.request import Request
from nitro_api.rules import payload_rules
from nitro_api.spec.lambda_backend import GivenLambdaBackend
from nitro_learner.backends import lambda_errors, lambda_report
from nitro_learner.backends.base import FatalError, RetryableError
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.backends.lambda_client import Invoked, LambdaClient, Payload, Prefix
from nitro_learner.backends.lambda_report import InvocationReport
from nitro_learner.backends.sigv4 import Signer

REQUEST = Request("rollout", "run", 1, 0, 0, 7, 0, "weights", "results", 60, steps=8)
HEADERS = {"Content-Type": "application/json", "X-Amz-Log-Type": "Tail"}


def test_actor_and_api_agree_on_the_size_of_a_payload() -> None:
    for name in ("LIMIT_BYTES", "ENVELOPE_BYTES", "CAPACITY_BYTES"):
        assert getattr(parcel, name) == getattr(payload_rules, name)


@pytest.mark.parametrize("token", [None, "session/token+="])
@pytest.mark.parametrize(
    "url",
    [
        "https://lambda.us-east-2.amazonaws.com/2015-03-31/functions/nitro-a_b/invocations",
        "http://127.0.0.1:4566/2015-03-31/functions/nitro/invocations?Qualifier=nitro",
        "https://user@host.example:8443/base/2015-03-31/functions/a%3Ab/invocations",
    ],
)
def test_the_signature_equals_that_of_botocore(url: str, token: str | None) -> None:
    body = b'{"kind":"spec"}'
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    signer = Signer(url, "us-east-2", "lambda", HEADERS)
    for now in (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)):
        request = AWSRequest("POST", url, headers=HEADERS, data=body)
        with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
            SigV4Auth(credentials, "lambda", "us-east-2").add_auth(request)
        ours = signer.sign(credentials, hashlib.sha256(body).hexdigest(), now)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            assert ours.get(name) == request.headers.get(name)


async def sent(event: Payload) -> bytes:
    return b"".join([piece async for piece in event.pieces()])


@pytest.mark.parametrize("size", [4, 2**18, 1_000_000])
async def test_events_share_the_digest_of_their_weights(size: int) -> None:
    prefix = Prefix(b'{"weights":"' + b"A" * size + b'",')
    for rest in (b'"request":"B"}', b'"request":"CC"}'):
        event = Payload(prefix, rest)
        assert await sent(event) == await sent(event) == prefix.text + rest
        assert event.size == len(prefix.text + rest)
        assert event.digest == hashlib.sha256(prefix.text + rest).hexdigest()


COLD = (
    "START RequestId: 1 Version: $LATEST\nREPORT of another kind\nEND RequestId: 1\n"
    "REPORT RequestId: 1\tDuration: 1049.63 ms\tBilled Duration: 2344 ms\tMemory Size: 1024 MB\t"
    "Max Memory Used: 135 MB\tInit Duration: 1293.83 ms\t\n"
)
WARM = COLD.replace("\tInit Duration: 1293.83 ms", "").replace("2344", "1050")
TIMEOUT = WARM.replace("\t\n", "\tStatus: timeout\nXRAY TraceId: 1-5\tSegmentId: 2\tSampled: true\n")
PLATFORM = json.dumps(
    {
        "time": "2026-01-01T00:00:00Z",
        "type": "platform.report",
        "record": {
            "requestId": "1",
            "status": "success",
            "metrics": {
                "durationMs": 1049.63,
                "billedDurationMs": 2344,
                "memorySizeMB": 1024,
                "maxMemoryUsedMB": 135,
                "initDurationMs": 1293.83,
            },
        },
    }
)


@pytest.mark.parametrize(
    ("log", "billed"),
    [
        (COLD, 2.344),
        (COLD[-210:], 2.344),  # 4 KB may begin anywhere
        (WARM, 1.05),
        (WARM.replace("Duration: 1049.63 ms\t", ""), 1.05),
        (TIMEOUT, 1.05),
        (f'{{"type": "platform.start"}}\n{PLATFORM}\n', 2.344),
        (PLATFORM.replace("durationMs", "otherMs"), 2.344),
    ],
)
def test_reports(log: str, billed: float) -> None:
    report = lambda_report.parse(base64.b64encode(log.encode()).decode())
    assert report == InvocationReport(billed_seconds=pytest.approx(billed), memory_mib=1024, used_mib=135)


@pytest.mark.parametrize(
    "log",
    ["", "no report here", "REPORT RequestId: 1\tDuration: 1 ms", '{"type": "platform.report", "record": 1}'],
)
def test_an_incomplete_report_is_ignored(log: str) -> None:
    assert lambda_report.parse(base64.b64encode(log.encode()).decode()) is None
    assert lambda_report.parse(None) is None
    assert lambda_report.parse("***") is None


REFUSALS: list[tuple[int, str, Any, type[Exception], str]] = [
    (429, "", {"Reason": "ConcurrentInvocationLimitExceeded"}, RetryableError, "account_concurrency"),
    (429, "", {"Reason": "CallerRateLimitExceeded"}, RetryableError, "invocation_rate"),
    (429, "", {"Reason": "FunctionInvocationRateLimitExceeded"}, RetryableError, "invocation_rate"),
    (
        429,
        "",
        {"Reason": "ReservedFunctionConcurrentInvocationLimitExceeded"},
        RetryableError,
        "reserved_concurrency: .*raise spec.backend.lambda.reservedConcurrency",
    ),
    (429, "", {"Reason": ["new"]}, RetryableError, "throttled"),
    (
        409,
        "ResourceConflictException:http://x/",
        {"Message": "Pending"},
        RetryableError,
        "not_ready.*Pending",
    ),
    (502, "ResourceNotReadyException", {}, RetryableError, "not_ready"),
    (500, "ServiceException", {}, RetryableError, "service_error"),
    (503, "", b"<html>", RetryableError, "service_error"),
    (400, "ThrottlingException", {"message": "Rate exceeded"}, RetryableError, "throttled: .*Rate exceeded"),
    *(
        (status, kind, {"message": "token FwoGZX"}, RetryableError, rf"credentials: .*\({kind}\).*renew")
        for status, kind in (
            (400, "RequestExpired"),
            (403, "ExpiredTokenException"),
            (403, "InvalidSignatureException"),
            (403, "UnrecognizedClientException"),
        )
    ),
    (404, "ResourceNotFoundException", {"Message": "none"}, FatalError, "there is no Lambda function f"),
    (403, "AccessDeniedException", {"Message": "no"}, FatalError, "lambda:InvokeFunction"),
    (413, "RequestTooLargeException", {}, FatalError, "HTTP 413"),
    (400, "InvalidRequestContentException", {}, FatalError, "HTTP 400"),
]


@pytest.mark.parametrize(("status", "kind", "body", "expected", "message"), REFUSALS)
def test_refusals(status: int, kind: str, body: Any, expected: type[Exception], message: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = lambda_errors.refusal(status, kind, data, "f")
    assert isinstance(error, expected)
    with pytest.raises(expected, match=message):
        raise error
    if isinstance(error, RetryableError):
        assert error.billed_seconds == 0
        assert error.throttled == (status == 429 or kind == "ThrottlingException")
        assert "FwoGZX" not in str(error)


def report(used: int = 100) -> InvocationReport:
    return InvocationReport(billed_seconds=2.5, memory_mib=512, used_mib=used)


@pytest.mark.parametrize(
    ("kind", "message", "used", "reason"),
    [
        ("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 3.00 seconds", 100, "timeout"),
        ("Runtime.ExitError", "Runtime exited with error: signal: killed", 100, "sandbox_died"),
        ("Runtime.ExitError", "Runtime exited with error: signal: killed", 510, "out_of_memory"),
        ("Runtime.OutOfMemory", "Runtime exited with error: signal: killed", 100, "out_of_memory"),
        ("Runtime.ImportModuleError", "Unable to import module", 100, "function_error"),
        ("EnvironmentConfigError", "no such environment", 100, "function_error"),
    ],
)
def test_failed_invocations_are_billed(kind: str, message: str, used: int, reason: str) -> None:
    body = json.dumps({"errorType": kind, "errorMessage": message}).encode()
    error = lambda_errors.failure(body, report(used), 9.0)
    assert isinstance(error, RetryableError)
    assert (error.reason, error.billed_seconds, error.estimated) == (reason, 2.5, False)
    lost = lambda_errors.failure(body, None, 9.0)
    assert isinstance(lost, RetryableError)
    assert (lost.billed_seconds, lost.estimated) == (9.0, True)
    for told in (error, lost) if kind == "Runtime.OutOfMemory" else ():
        assert (told.reason, "raise spec.backend.lambda.memoryMiB" in told.message) == ("out_of_memory", True)


def test_a_response_that_lambda_does_not_take_ends_the_run() -> None:
    body = json.dumps(
        {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": "6291556 bytes"}
    ).encode()
    with pytest.raises(FatalError, match="6291556 bytes; lower rolloutLength"):
        raise lambda_errors.failure(body, None, 1.0)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", FatalError),
        (400, "ExpiredTokenException", FatalError),
        (400, "IDPCommunicationError", RetryableError),
        (503, "ServiceUnavailable", RetryableError),
        (None, "Could not connect to the endpoint", RetryableError),
    ],
)
async def test_a_failing_sts_is_asked_again_but_its_refusal_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int | None, code: str, expected: type[Exception]
) -> None:
    asked = 0

    async def refuse(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        error = f"<Error><Code>{code}</Code><Message>not this service account</Message></Error>"
        return web.Response(status=status or 500, text=f"<ErrorResponse>{error}</ErrorResponse>")

    sts = web.Application()
    sts.router.add_post("/", refuse)
    token = tmp_path / "token"
    token.write_text("from Kubernetes")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/learner")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    async with TestServer(sts) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", str(server.make_url("/")))
        if status is None:
            await server.close()
        client = LambdaClient("nitro", "us-east-2", None, None)
        await client.open()
        asked_at_once = [client.credentials(10.0) for _ in range(3)]
        for error in await asyncio.gather(*asked_at_once, return_exceptions=True):
            assert type(error) is expected
            assert re.search(f"AWS gives no credentials: .*{code}", str(error))
        assert asked == (status is not None), "a burst of requests asks once"
        with pytest.raises(expected):
            await client.credentials(10.0)
        assert asked == 2 * (status is not None), "a failure is not kept"
        await client.close()


async def test_credentials_that_stay_expired_are_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expired = {
        "access_key": "AKID",
        "secret_key": "secret",
        "token": "t",
        "expiry_time": "2026-01-01T00:00:00Z",
    }
    credentials = RefreshableCredentials.create_from_metadata(expired, lambda: expired, "test")
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda _: credentials)
    client = LambdaClient("nitro", "us-east-2", None, None)
    await client.open()
    with pytest.raises(RetryableError, match=r"credentials: .*the refreshed credentials are still expired"):
        await client.credentials(10.0)
    await client.close()


def test_lambda_may_answer_after_the_time_out_because_that_does_not_count_the_init_phase() -> None:
    assert LambdaBackend.grace_seconds > 10.0, "Lambda's limit of the init phase"


async def test_waiting_for_credentials_is_no_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent to Lambda, so nothing may be billed, and the message is about the credentials."""
    given, keys = threading.Event(), ReadOnlyCredentials("AKID", "secret", None)
    credentials = mock.Mock(get_frozen_credentials=lambda: given.wait() and keys)
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda _: credentials)
    monkeypatch.setattr("nitro_learner.backends.lambda_backend._PROBE_SECONDS", 0.1)
    settings = GivenLambdaBackend(function_name="nitro", region="us-east-2", manage=False)
    backend = LambdaBackend(settings, "x", envs=1, limit=1, ready_seconds=0.0)
    backend.open_cache("run")
    try:
        with pytest.raises(RetryableError, match="does not answer"):
            await backend.start()
        with pytest.raises(RetryableError, match=r"credentials: AWS gave no credentials in 0\.1 s") as late:
            await backend.invoke(REQUEST, 0.1)
        assert late.value.billed_seconds == 0
        waiting = asyncio.create_task(backend.invoke(REQUEST, 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        given.set()
        await backend.close()


async def test_an_idle_connection_sends_tcp_keepalives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    made: list[socket.socket] = []

    class Watched(socket.socket):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            if not more:  # the server's have a file already
                made.append(self)

    async def answer(_: web.Request) -> web.Response:
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
        options += [(socket.IPPROTO_TCP, getattr(socket, name)) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL")]
        return web.json_response([made[-1].getsockopt(*option) for option in options])

    function = web.Application()
    function.router.add_post("/{path:.*}", answer)
    async with TestServer(function) as server:
        client = LambdaClient("nitro", "us-east-2", str(server.make_url("/")), None)
        await client.open()
        monkeypatch.setattr("nitro_learner.backends.lambda_client.socket.socket", Watched)
        payload = Payload(Prefix(b"{"), b"}")
        invoked = await client.invoke(payload, 10.0, await client.credentials(10.0))
        assert json.loads(invoked.body) == [1, 60, 30]
        await client.close()


@asynccontextmanager
async def function_of(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[Payload], Awaitable[Invoked]]]:
    """A function that this handler answers for: what invokes it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path:.*}", handler)
    async with TestServer(app) as server:
        client = LambdaClient("nitro", "us-east-2", str(server.make_url("/")), None)
        await client.open()
        credentials = await client.credentials(10.0)
        yield lambda payload: client.invoke(payload, 60.0, credentials)
        await client.close()


async def test_an_event_arrives_whole_with_its_length_at_every_try(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[tuple[str | None, str | None, bytes]] = []

    async def keep(request: web.Request) -> web.Response:
        headers = request.headers
        came.append((headers.get("Content-Length"), headers.get("Transfer-Encoding"), await request.read()))
        return web.Response(status=500)

    small, large = b'{"kind":"rollout",', b'{"weights":"' + secrets.token_bytes(3_000_000)
    async with function_of(keep, monkeypatch) as invoke:
        for beginning in (small, large):
            event, whole = Payload(Prefix(beginning), b'"request":"B"}'), beginning + b'"request":"B"}'
            for _ in range(2):
                assert (await invoke(event)).status == 500
            assert came == [(str(len(whole)), None, whole)] * 2
            came.clear()


async def test_requests_in_flight_share_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    here, answer = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        while await request.content.readany():
            pass
        here.release()
        await answer.wait()
        return web.Response()

    requests, size = 16, 4 * 2**20
    weights = Prefix(bytes(size))
    async with function_of(wait, monkeypatch) as invoke:
        tracemalloc.start()
        try:
            asked = [asyncio.create_task(invoke(Payload(weights, b"}"))) for _ in range(requests)]
            for _ in asked:
                await here.acquire()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        answer.set()
        assert {one.status for one in await asyncio.gather(*asked)} == {200}
    assert held < requests * size / 4


async def test_a_proxy_that_would_compress_answers_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def through_proxy(_: web.Request) -> web.Response:
        answer = web.json_response({"status": 200})
        answer.enable_compression()  # by what the client accepts
        return answer

    async with function_of(through_proxy, monkeypatch) as invoke:
        assert json.loads((await invoke(Payload(Prefix(b"{"), b"}"))).body) == {"status": 200}


async def test_memory_cache_returns_fragments_once_and_drops_old_weights() -> None:
    cache = MemoryCache("run")
    for version in range(3):
        await cache.publish_weights(version, b"weights %d" % version)
    newest = cache.weights_key(2)
    assert cache.weights(newest) == b"weights 2"
    with pytest.raises(KeyError):
        cache.weights_key(0)
    key = cache.round_key(3, 2)
    waiting = asyncio.create_task(cache.wait(key, 5.0))
    await asyncio.sleep(0)
    cache.put(key, b"one")
    cache.put(key, b"two")
    assert await waiting == b"one"
    assert await cache.pop(key) == [b"two"]
    assert await cache.pop(key) == []
    assert await cache.wait(key, 0.01) is None
    assert (await cache.memory()).used == len(b"weights 1") * 2
    await cache.clear(key, stop=False)
    await cache.close()
    assert (await cache.memory()).used == 0
