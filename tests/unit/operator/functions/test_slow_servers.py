"""Servers that send their answers byte by byte: how long a call takes, and what it keeps from others."""

from __future__ import annotations

import asyncio
import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from nitro_operator.functions import aws as aws_module
from nitro_operator.functions.aws import Access, Aws, AwsError, _Server

REFUSAL = (
    b"HTTP/1.1 404 Not Found\r\nx-amzn-ErrorType: ResourceNotFoundException\r\ncontent-length: 2\r\n\r\n{}"
)


class Dripping(socketserver.ThreadingTCPServer):
    """A server that sends a header without an end until it is told to stop, and then a refusal."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Drip)
        self.drips, self.requests = threading.Event(), list[bytes]()
        self.drips.set()

    def url(self, host: str) -> str:
        return f"http://{host}:{self.server_address[1]}"


class Drip(socketserver.StreamRequestHandler):
    server: Dripping

    def handle(self) -> None:
        self.server.requests.append(self.rfile.readline())
        with contextlib.suppress(OSError):
            if self.server.drips.is_set():
                self.wfile.write(b"HTTP/1.1 503 Slow\r\nx: ")
                while self.server.drips.is_set():
                    self.wfile.write(b".")
                    time.sleep(0.02)
            else:
                self.wfile.write(REFUSAL)


@pytest.fixture
def server() -> Iterator[Dripping]:
    with Dripping() as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.drips.clear()
        found.shutdown()


async def refused(aws: Aws, url: str) -> AwsError:
    access = Access("us-east-2", url, ("id", "key", None))
    with pytest.raises(AwsError) as error:
        await aws.call(access, "delete_function", FunctionName="f")
    return error.value


async def answered(aws: Aws, url: str) -> AwsError:
    """The first error that the server itself tells; until then no thread may be free for it."""
    for _ in range(600):
        error = await refused(aws, url)
        if error.code != "Unreachable":
            break
        await asyncio.sleep(0.05)
    return error


async def ready(monkeypatch: pytest.MonkeyPatch, server: Dripping) -> Aws:
    """With the server's client, which takes long to make: the calls after it have two seconds each."""
    aws = Aws()
    server.drips.clear()
    await refused(aws, server.url("127.0.0.1"))
    server.requests.clear()
    server.drips.set()
    monkeypatch.setattr(aws_module, "CALL_SECONDS", 2.0)
    return aws


async def test_a_server_that_drips_its_answers_holds_up_no_other_server(
    monkeypatch: pytest.MonkeyPatch, server: Dripping
) -> None:
    aws = await ready(monkeypatch, server)
    async with asyncio.timeout(60):
        calls = [refused(aws, server.url("127.0.0.1")) for _ in range(aws_module.THREADS)]
        for error in await asyncio.gather(*calls):
            assert (error.code, "incomplete after" in error.message) == ("Unreachable", True)
        asked = len(server.requests)
        error = await refused(aws, server.url("127.0.0.1"))
        assert (error.code, "earlier calls" in error.message) == ("Unreachable", True)
        assert len(server.requests) == asked, "no thread is left for it"
        monkeypatch.setattr(aws_module, "CALL_SECONDS", 60.0)
        server.drips.clear()
        assert (await refused(aws, server.url("localhost"))).code == "ResourceNotFoundException"
        error = await answered(aws, server.url("127.0.0.1"))
        assert error.code == "ResourceNotFoundException", "its threads are free again"
    aws.close()


async def test_a_call_that_is_overdue_begins_no_further_attempt(
    monkeypatch: pytest.MonkeyPatch, server: Dripping
) -> None:
    """It would be sent after what others have changed meanwhile."""
    aws = await ready(monkeypatch, server)
    await refused(aws, server.url("127.0.0.1"))
    assert len(server.requests) == 1
    server.drips.clear()  # the attempt fails now, and botocore would make another one
    aws.close()
    for thread in threading.enumerate():
        if thread.name.startswith("aws"):
            thread.join(60)
    assert len(server.requests) == 1


async def test_servers_that_hold_their_threads_are_bounded(
    monkeypatch: pytest.MonkeyPatch, server: Dripping
) -> None:
    aws = await ready(monkeypatch, server)
    monkeypatch.setattr(aws_module, "MAX_SERVERS", 1)
    await refused(aws, server.url("127.0.0.1"))
    error = await refused(aws, server.url("localhost"))
    assert (error.code, "calls to 1 other servers" in error.message) == ("Unreachable", True)
    server.drips.clear()
    monkeypatch.setattr(aws_module, "CALL_SECONDS", 60.0)
    assert (await answered(aws, server.url("localhost"))).code == "ResourceNotFoundException"
    server.drips.set()
    monkeypatch.setattr(aws_module, "CALL_SECONDS", 2.0)
    await refused(aws, server.url("localhost"))
    error = await refused(aws, server.url("127.0.0.1"))
    assert (error.code, "calls to 1 other servers" in error.message) == ("Unreachable", True)
    aws.close()


async def test_a_call_is_cancelled_even_as_its_answer_arrives() -> None:
    arrived, server = threading.Event(), _Server()
    call = asyncio.create_task(server.call("get_function", lambda _until: {"answered": arrived.wait()}))
    await asyncio.sleep(0)
    arrived.set()
    server.threads.shutdown(wait=True)  # the answer is the event loop's next event, and this is the second
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
