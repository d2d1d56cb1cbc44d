"""The Invoke API of one Lambda function, over keep-alive connections.

aiohttp and a signature of our own, because a fan-out is one burst of up to a thousand requests: see
tests/benchmarks/bench_lambda.py for the same through boto3's threads. Credentials, region and endpoint are
botocore's, so that everything a user has set up for AWS works here.
"""

import asyncio
import hashlib
import os
import socket
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlsplit

import aiohttp

from nitro_learner.backends import lambda_errors
from nitro_learner.backends.base import BackendError, RetryableError
from nitro_learner.backends.http import broken_connections, limits, read
from nitro_learner.backends.sigv4 import Credentials, Signer

ANSWER_BYTES = 7 * 2**20
"""Size limit of an answer, above what Lambda ever sends."""

_KEEP_SECONDS = 60.0
_TCP_KEEP_SECONDS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 30}
_REFRESH_SECONDS = 30.0
"""How often botocore is asked whether the credentials have changed."""

_PIECE_BYTES = 2**18
"""What a connection gets at once. It keeps a copy of what the network does not take at once."""

_HEADERS = {
    "Content-Type": "application/json",
    "X-Amz-Invocation-Type": "RequestResponse",
    "X-Amz-Log-Type": "Tail",
}


@dataclass(frozen=True)
class Invoked:
    """An answer of the Invoke API, successful or not; ``wall_seconds`` is how long it took."""

    status: int
    error_type: str
    function_error: str
    log: str | None
    body: bytes
    wall_seconds: float


class Prefix:
    """The beginning that many events have in common."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.digest = hashlib.sha256(text)


class Payload:
    """The JSON of one event, its size, and its digest.

    The weights, which are equal for a whole round, stand first and are encoded, digested and kept once
    (`Prefix`): up to a thousand requests are in flight, each until its actor answers.
    """

    def __init__(self, prefix: Prefix, rest: bytes) -> None:
        digest = prefix.digest.copy()
        digest.update(rest)
        self.digest = digest.hexdigest()
        self.size = len(prefix.text) + len(rest)
        self._parts = (prefix.text, rest)

    async def pieces(self) -> AsyncIterator[bytes | memoryview]:
        """What to send, all of it at every call. A small event is one piece, and leaves in one packet."""
        if self.size <= _PIECE_BYTES:
            yield b"".join(self._parts)
            return
        for part in self._parts:
            view = memoryview(part)
            for start in range(0, len(view), _PIECE_BYTES):
                yield view[start : start + _PIECE_BYTES]


class LambdaClient:
    """Invoke one function.

    Args:
        endpoint_url: another address of the API than AWS's.
        qualifier: an alias or version; None for the newest code.
    """

    def __init__(self, name: str, region: str, endpoint_url: str | None, qualifier: str | None) -> None:
        self._name, self._region = name, region
        self._endpoint_url, self._qualifier = endpoint_url, qualifier
        self._session: aiohttp.ClientSession | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._looked_at = -_REFRESH_SECONDS

    async def open(self) -> None:
        """Find credentials and the API's address. Raises BackendError."""
        self._source, endpoint, bundle = await asyncio.to_thread(self._resolve)
        path = f"/2015-03-31/functions/{quote(self._name, safe='')}/invocations"
        query = f"?Qualifier={quote(self._qualifier, safe='')}" if self._qualifier else ""
        self.url = f"{endpoint.rstrip('/')}{path}{query}"
        self._signer = Signer(self.url, self._region, "lambda", _HEADERS)
        self._session = aiohttp.ClientSession(
            # The backend limits how many run at once; a limit here would only hide a queue.
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEP_SECONDS,
                ssl=ssl.create_default_context(cafile=bundle),
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # No answer is decompressed, because a few bytes may become gigabytes: a proxy must not compress
            # any. The header is not signed, because a proxy may change it.
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            trust_env=False,  # otherwise aiohttp looks for proxies in a thread at every request
        )
        self._proxy = _proxy(self.url)

    async def credentials(self, timeout: float) -> Credentials:
        """The newest credentials. All requests that wait for them share one refresh, and its failure.

        Raises RetryableError where there are none now, or none in `timeout` seconds, and FatalError where AWS
        gives none.
        """
        if time.monotonic() - self._looked_at >= _REFRESH_SECONDS:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh())
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._refreshing)
            except TimeoutError as error:
                message = f"AWS gave no credentials in {timeout:g} s"
                raise RetryableError("credentials", message) from error
        return self._frozen

    async def invoke(self, payload: Payload, timeout: float, credentials: Credentials) -> Invoked:
        """One request, one answer. Raises RetryableError where there was none."""
        assert self._session is not None, "the client is not open"
        headers = self._signer.sign(credentials, payload.digest)
        headers["Content-Length"] = str(payload.size)  # AWS takes no chunked encoding
        began = time.perf_counter()
        with broken_connections(self.url, timeout):
            async with self._session.post(
                self.url,
                data=payload.pieces(),
                headers=headers,
                proxy=self._proxy,
                allow_redirects=False,
                timeout=limits(timeout),
            ) as response:
                body = await read(response, ANSWER_BYTES)
                return Invoked(
                    response.status,
                    response.headers.get("X-Amzn-ErrorType", ""),
                    response.headers.get("X-Amz-Function-Error", ""),
                    response.headers.get("X-Amz-Log-Result"),
                    body,
                    time.perf_counter() - began,
                )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _refresh(self) -> None:
        # In a thread, because it may go over the network.
        self._frozen = await asyncio.to_thread(self._source)
        self._looked_at = time.monotonic()

    def _resolve(self) -> tuple[Callable[[], Credentials], str, str]:
        import botocore.exceptions
        import botocore.httpsession
        import botocore.session

        session = botocore.session.Session()
        try:
            credentials = session.get_credentials()
            client = session.create_client("lambda", self._region, endpoint_url=self._endpoint_url)
        except (botocore.exceptions.BotoCoreError, ValueError) as error:  # ValueError: endpointUrl
            raise BackendError(f"AWS cannot be used: {error}") from error
        if credentials is None:
            raise BackendError(
                "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE, or whatever else the AWS command line would take"
            )

        def source() -> Credentials:
            try:
                return cast("Credentials", credentials.get_frozen_credentials())
            except (
                botocore.exceptions.BotoCoreError,
                botocore.exceptions.ClientError,
                RuntimeError,  # of credentials that were refreshed and have expired all the same
            ) as error:
                raise lambda_errors.no_credentials(error) from error

        bundle = os.environ.get("AWS_CA_BUNDLE") or botocore.httpsession.get_cert_path(True)
        return source, client.meta.endpoint_url, bundle


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket with TCP keep-alive: a NAT gateway drops connections that are silent for 350 s, and a rollout
    may take 900 s."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _TCP_KEEP_SECONDS.items():
        if hasattr(socket, name):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    return made


def _proxy(url: str) -> str | None:
    """The proxy of the environment, such as HTTPS_PROXY, for this URL."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)
