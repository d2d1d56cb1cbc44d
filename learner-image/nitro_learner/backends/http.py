"""One request to an actor over HTTP: what every status, broken connection and odd answer means.

Shared by the backends. Nothing is retried here: the dispatcher knows the slot's deadline.
"""

import json
import math
import time
from typing import Any

import aiohttp

from nitro_actor import PROTOCOL_VERSION
from nitro_learner.backends.base import Ack, FatalError, RetryableError

_ANSWER_BYTES = 64 * 2**10
_CONNECT_SECONDS = 10.0
_REASONS = {
    408: "timeout",
    424: "weights_missing",
    429: "throttled",
    500: "server_error",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
    507: "redis_full",
}
_WORK_CODES = frozenset({"environment", "weights_invalid", "internal"})
_CODES = frozenset(
    {"busy", "draining", "starting", "redis_unreachable", "redis_full", "weights_missing"} | _WORK_CODES
)
"""The actor's own codes, more exact than a status; anything else in that field is not believed."""

_FATAL = frozenset({400, 401, 403, 409, 413})
_ACCEPTED = _WORK_CODES | {"server_error", "weights_missing", "redis_full", "redis_unreachable"}
"""Reasons that an actor gives after it began to work, so that the invocation is billed."""

_SECONDS = ("weights", "rollout", "store", "total")


class HttpClient:
    """Keep-alive connections to actors, as many as there are requests at once."""

    def __init__(self, token: str | None = None) -> None:
        self._headers = {"Content-Type": "application/octet-stream"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None

    async def rollout(self, url: str, request: bytes, timeout: float) -> Ack:
        """Sends one wire request. Raises RetryableError or FatalError."""
        began = time.perf_counter()
        status, body = await self._exchange("POST", f"{url}/v1/rollout", request, timeout)
        wall = time.perf_counter() - began
        if status == 200:
            return _ack(body, wall)
        raise _failure(status, body, wall)

    async def environment(self, url: str, timeout: float) -> dict[str, Any]:
        """The EnvironmentSpec that the actor reports. Raises RetryableError or FatalError."""
        status, body = await self._exchange("GET", f"{url}/v1/spec", b"", timeout)
        if status != 200:
            raise _failure(status, body, 0.0)
        spec = _object(body)
        if spec is None or "protocol" not in spec:
            raise RetryableError("bad_answer", f"{url}/v1/spec answered {_excerpt(body)}")
        if spec["protocol"] != PROTOCOL_VERSION:
            raise FatalError(
                f"the actors at {url} speak protocol {spec['protocol']}, this learner {PROTOCOL_VERSION}: "
                "use an actor image and a learner of the same release"
            )
        return spec

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, method: str, url: str, data: bytes, timeout: float) -> tuple[int, bytes]:
        """Status and body (at most 64 KB) of one HTTP exchange."""
        began = time.perf_counter()
        try:
            async with self._open().request(
                method,
                url,
                data=data or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=min(_CONNECT_SECONDS, timeout)),
            ) as response:
                return response.status, await _read(response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RetryableError("connection", f"{url}: {error}") from error
        except TimeoutError as error:
            wall = time.perf_counter() - began
            raise RetryableError("timeout", f"{url} did not answer in {timeout:g} s", wall) from error
        except (aiohttp.ClientError, OSError) as error:
            wall = time.perf_counter() - began
            message = f"{url}: {error or type(error).__name__}"
            raise RetryableError("connection", message, wall) from error

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


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _ANSWER_BYTES:
            response.close()
            raise RetryableError("bad_answer", f"an answer of more than {_ANSWER_BYTES} bytes")
    return body


def _ack(body: bytes, wall: float) -> Ack:
    """The strict reading of a 200's JSON: a peer that is no actor must not be taken for one."""
    value = _object(body)
    try:
        if value is None:
            raise ValueError("no JSON object")
        seconds = {name: _number(value["seconds"][name]) for name in _SECONDS}
        cold = value["coldStart"]
        if type(cold) is not bool:
            raise ValueError(f"coldStart is {cold!r}")
        return Ack(
            slot=_whole(value["slot"]),
            attempt=_whole(value["attempt"]),
            bytes=_whole(value["bytes"]),
            steps=_whole(value["steps"]),
            cold_start=cold,
            seconds=seconds,
            rss_bytes=_whole(value["rssBytes"]),
            wall_seconds=wall,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RetryableError("bad_answer", f"{error!r} in the answer {_excerpt(body)}", wall) from error


def _failure(status: int, body: bytes, wall: float) -> RetryableError | FatalError:
    value = _object(body) or {}
    text = str(value.get("error", ""))[:2000] or _excerpt(body)
    if status == 401 or status == 403:
        return FatalError(f"the actor refuses the token (HTTP {status}): {text}")
    if status == 409:
        return FatalError(
            f"the actor refuses this learner's protocol {PROTOCOL_VERSION}: {text}; "
            "use an actor image and a learner of the same release"
        )
    if status in _FATAL:
        return FatalError(f"the actor refuses the request (HTTP {status}): {text}")
    code = value.get("code")
    known = isinstance(code, str) and code in _CODES
    reason = str(code) if known else _REASONS.get(status, "bad_answer")
    return RetryableError(reason, f"HTTP {status}: {text}", wall if reason in _ACCEPTED else 0.0)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number >= 0")
    return value


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:  # type: ignore[arg-type,operator]
        raise ValueError(f"{value!r} is no number of seconds")
    return float(value)  # type: ignore[arg-type]


def _excerpt(body: bytes) -> str:
    return repr(body[:200].decode(errors="replace"))
