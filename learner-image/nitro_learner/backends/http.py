"""One request to an actor over HTTP, and the errors of broken connections.

Shared by the backends whose actors are servers. Nothing is retried here: the dispatcher knows the slot's
deadline.
"""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping

import aiohttp

from nitro_actor.check_process import Record
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.backends.actor_answers import read_ack, read_check, read_failure, read_spec
from nitro_learner.backends.base import Ack, RetryableError, answering

_CONNECT_SECONDS = 10.0
_ANSWER_BYTES = 64 * 2**10
_CHECK_BYTES = _SPEC_BYTES = 8 * 2**20
"""Of the environment's spaces: there are bounds for each number of an action. A check tells them, too."""


@contextlib.contextmanager
def broken_connections(url: str, timeout: float) -> Iterator[None]:
    """Turn aiohttp's errors into RetryableErrors, which have the time that may be billed.

    `timeout` is the exchange's, in seconds.
    """
    began = time.perf_counter()
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise RetryableError("connection", f"{url}: {error}") from error
    except TimeoutError as error:
        wall = time.perf_counter() - began
        raise RetryableError("timeout", f"{url} did not answer in {timeout:g} s", wall) from error
    except (aiohttp.ClientError, OSError) as error:
        wall = time.perf_counter() - began
        raise RetryableError("connection", f"{url}: {error or type(error).__name__}", wall) from error


def limits(timeout: float) -> aiohttp.ClientTimeout:
    """The time-outs of one exchange."""
    return aiohttp.ClientTimeout(total=timeout, sock_connect=min(_CONNECT_SECONDS, timeout))


async def read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of an answer. Raises RetryableError if it has more than `most` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            response.close()
            raise RetryableError("bad_answer", f"an answer of more than {most} bytes")
    return bytes(body)


class HttpClient:
    """Keep-alive connections to actors, as many as there are requests at once."""

    def __init__(self, token: str | None) -> None:
        # No answer is decompressed, because a few bytes may become gigabytes: a mesh must not compress any.
        self._headers = {"Content-Type": "application/octet-stream", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None

    async def rollout(self, url: str, request: bytes, timeout: float, *, waits: bool = False) -> Ack:
        """Send one wire request. Raises RetryableError or FatalError.

        ``waits`` says that the request may wait for an actor behind `url`, for all its time at worst.
        """
        began = time.perf_counter()
        with answering(timeout):
            status, body = await self._exchange("POST", f"{url}/v1/rollout", request, timeout)
        wall = time.perf_counter() - began
        if status == 200:
            return read_ack(body, wall)
        raise read_failure(status, body, wall, math.inf if waits else timeout)

    async def environment(self, url: str, timeout: float) -> DescribedEnvironment:
        """The environment that the actor reports. Raises RetryableError or FatalError."""
        # Until a new Service's address is routed somebody else may answer there, and would for as long as the
        # connection to it lives.
        status, body = await self._exchange(
            "GET", f"{url}/v1/spec", b"", timeout, {"Connection": "close"}, _SPEC_BYTES
        )
        if status != 200:
            raise read_failure(status, body, 0.0)
        return read_spec(body, url)

    async def check(self, url: str, id_: str, timeout: float) -> tuple[str, Record | None]:
        """The id of the check that an actor makes of its environment, and what it has told; None while it
        runs. Raises RetryableError or FatalError.

        ``id_`` is that of an actor's check that has begun, or empty.
        """
        query = f"?id={id_}" if id_ else ""
        status, body = await self._exchange(
            "GET", f"{url}/v1/check{query}", b"", timeout, {"Connection": "close"}, _CHECK_BYTES
        )
        return read_check(status, body, url)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(
        self,
        method: str,
        url: str,
        data: bytes,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        most: int = _ANSWER_BYTES,
    ) -> tuple[int, bytes]:
        """Status and body (of at most so many bytes) of one HTTP exchange."""
        with broken_connections(url, timeout):
            async with self._open().request(
                method,
                url,
                data=data or None,
                headers=headers,
                allow_redirects=False,
                timeout=limits(timeout),
            ) as response:
                return response.status, await read(response, most)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Capacity is limited by the backend; a limit here would only hide a queue.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                auto_decompress=False,
                trust_env=False,
            )
        return self._session
