"""The actor's access to Redis: read weights, append a fragment.

The module has its own small client on top of hiredis. redis-py takes longer to load than everything else that
an actor needs, and a round waits for an actor that starts.
"""

import contextlib
import random
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import hiredis

from nitro_actor import wire

Command = tuple[str | int | float | bytes | memoryview, ...]

_TRIES = 3
_FIRST_PAUSE_SECONDS = 0.1
_CHUNK = 2**16
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 10.0
"""Time limit of each wait for Redis."""


class StoreError(RuntimeError):
    """Redis cannot be reached, or refuses. The text says where and why."""


class StoreFullError(StoreError):
    """Redis has reached its memory limit (noeviction): nothing was stored."""


class Exchange(Protocol):
    """Where weights come from and fragments go to: Redis, or the messages themselves (nitro_actor.parcel)."""

    def get(self, key: str) -> bytes | None:
        """The weights of a key, None where there are none."""

    def append(self, key: str, value: bytes, ttl: int) -> None:
        """Hand over a fragment, to live for `ttl` seconds."""


class Store:
    """One connection to Redis, made when it is needed and made again when it broke.

    Args:
        url: redis://[user[:password]]@host[:port][/database], rediss:// for TLS, or unix://[user[:password]]@PATH
            for a Unix socket.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._path = unquote(parts.path) if parts.scheme == "unix" else None
        if self._path is None and (parts.scheme not in ("redis", "rediss") or not parts.hostname):
            raise ValueError(
                f"NITRO_REDIS_URL must look like redis://user:password@host:6379, not {_shown(url)}"
            )
        self._address = (parts.hostname or "", parts.port or 6379)
        self._where = self._path or "{}:{}".format(*self._address)
        self._tls = parts.scheme == "rediss"
        self._greeting: list[Command] = []
        if parts.password:
            user = [unquote(parts.username)] if parts.username else []
            self._greeting.append(("AUTH", *user, unquote(parts.password)))
        if self._path is None and parts.path.strip("/"):
            self._greeting.append(("SELECT", parts.path.strip("/")))
        self._socket: socket.socket | None = None

    def get(self, key: str) -> bytes | None:
        """The value of a key, None where there is none.

        Raises:
            StoreError: Redis cannot be reached or refuses.
        """
        (value,) = self._retried([("GET", key)])
        if value is not None and not isinstance(value, bytes):
            raise StoreError(f"Redis answered GET {key} with a {type(value).__name__}")
        return value

    def append(self, key: str, value: bytes, ttl: int) -> None:
        """Append to a list and let it expire after `ttl` seconds, both or neither.

        After a broken connection the value may be stored twice; readers keep one fragment per slot.

        Raises:
            StoreFullError: Redis is at its memory limit.
            StoreError: Redis cannot be reached or refuses.
        """
        self._retried([("MULTI",), ("RPUSH", key, value), ("EXPIRE", key, str(ttl)), ("EXEC",)])

    def exists(self, key: str) -> bool:
        """Whether a key exists. Raises StoreError."""
        return bool(self._retried([("EXISTS", key)])[0])

    def hold(self, key: str, ttl: int) -> None:
        """Have a key exist for `ttl` seconds more. Raises StoreError.

        The key is a list: actors of every release have the right to append, and not to set.
        """
        if not self._retried([("EXPIRE", key, str(ttl))])[0]:
            self.append(key, b"", ttl)

    def drop(self, key: str) -> None:
        """Remove a key, by a command to which actors have the right. Raises StoreError."""
        self._retried([("EXPIRE", key, "0")])

    def beside(self) -> "Store":
        """A store of the same Redis, for another thread."""
        return Store(self._url)

    def close(self) -> None:
        """Close the connection; the next command opens another."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _retried(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to a pipeline, tried again after broken connections, with a random pause between."""
        for attempt in range(_TRIES):
            try:
                if self._socket is None:
                    self._socket = self._connect()
                return self._exchange(self._socket, commands)
            except OSError as error:
                self.close()
                if attempt == _TRIES - 1:
                    what = str(error) or type(error).__name__
                    raise StoreError(
                        f"Redis at {self._where} cannot be reached ({_TRIES} tries): {what}"
                    ) from error
                time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
            except StoreError:
                # Replies of a refused pipeline may still be on their way.
                self.close()
                raise
        raise AssertionError("unreachable")

    def _connect(self) -> socket.socket:
        if self._path is not None:
            connection = socket.socket(socket.AF_UNIX)
        else:
            connection = socket.create_connection(self._address, _CONNECT_SECONDS)
        try:
            if self._path is not None:
                connection.settimeout(_CONNECT_SECONDS)
                connection.connect(self._path)
            else:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_ANSWER_SECONDS)
            if self._tls:
                import ssl  # only here: most actors reach Redis inside their cluster

                connection = ssl.create_default_context().wrap_socket(
                    connection, server_hostname=self._address[0]
                )
            if self._greeting:
                self._exchange(connection, self._greeting)
        except BaseException:
            connection.close()
            raise
        return connection

    def _exchange(self, connection: socket.socket, commands: Sequence[Command]) -> list[Any]:
        reader = hiredis.Reader()
        connection.sendall(b"".join(_pack(command) for command in commands))
        replies: list[Any] = []
        received = 0
        while len(replies) < len(commands):
            try:
                reply = reader.gets()
            except (
                hiredis.ProtocolError
            ) as error:  # another server may answer until a new Service's address is routed
                raise ConnectionError(f"what answers is no Redis: {error}") from error
            if reply is False:
                data = connection.recv(_CHUNK)
                received += len(data)
                if not data:
                    raise ConnectionError("Redis closed the connection")
                if received > wire.MAX_BYTES + _CHUNK:
                    raise StoreError(f"Redis sends more than {wire.MAX_BYTES} bytes")
                reader.feed(data)
                continue
            # An error inside a transaction is the cause; EXEC then only says that it was discarded.
            if isinstance(reply, hiredis.ReplyError):
                raise _refusal(str(reply))
            replies.append(reply)
        if isinstance(replies[-1], list):
            for reply in replies[-1]:
                if isinstance(reply, hiredis.ReplyError):
                    raise _refusal(str(reply))
        return replies


def _pack(command: Command) -> bytes:
    # hiredis's stub declares a tuple of one; it takes any.
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed


def _refusal(text: str) -> Exception:
    if text.startswith("OOM"):
        return StoreFullError(f"Redis is full: {text}. Give it more memory, or fewer or smaller fragments")
    if text.startswith(("LOADING", "MASTERDOWN", "READONLY")):
        return ConnectionError(text)  # the error is temporary: worth another try
    return StoreError(f"Redis refuses: {text}")


def _shown(url: str) -> str:
    """A URL without its password."""
    return url.rpartition("@")[2]
