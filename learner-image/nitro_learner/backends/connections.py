"""HTTP exchanges with actors and with Lambda: bounded answers, time-outs, errors of connections."""

import contextlib
import time
from collections.abc import Iterator

import aiohttp

from nitro_learner.backends.base import RetryableError

_CONNECT_SECONDS = 10.0


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
