"""The gate in front of Redis, through which actors come in: `python -m nitro_learner.gate`.

Redis itself listens only within the learner's pod, because it has no bound for those who do not log in: they
take its places, its memory and the time of its one thread. The gate reads the first command of a connection.
If that logs in as a user of Redis' own user file, all bytes go to Redis and back as they are; else Redis
never hears of it. Redis checks the login again, and what the user may do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import hmac
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nitro_actor.logs import log
from nitro_api.doors import Door, Guest, Rate, doors

PLACES = 512
"""Connections at once that have not logged in."""
RATE = Rate(burst=200, per_second=20)
"""How fast one address may open such connections. An actor opens one, and keeps it."""
LOGIN_SECONDS = 5.0
"""Time that a connection has to log in."""
START_SECONDS = 60.0
"""Time that Redis has to start."""
_LOGIN_BYTES = 1024
_WORDS = 8
"""Words of the command that logs in, at most."""
_CHUNK = 2**18
_TURN = 16
"""Connections that are taken before those that have logged in get their turn again."""
_KEEP_ALIVE_SECONDS = 300
"""As Redis has it: a connection whose other end has vanished is closed after some of these."""

Users = Mapping[str, frozenset[str]]
"""Of each user the hashes of the passwords."""


class Refused(Exception):  # noqa: N818
    """A connection does not log in. The text is the answer, as Redis would give it."""


def users_of(acl: str) -> Users:
    """The users of a user file of Redis who may log in with a password."""
    users = {}
    for line in acl.splitlines():
        match line.split():
            case ["user", name, *rules] if "on" in rules:
                users[name] = frozenset(rule[1:] for rule in rules if rule.startswith("#"))
    return users


class Gate:
    """The connections of one gate.

    Args:
        users: who may come in.
        redis: path of the Unix socket of Redis.
        most: connections at once that have logged in.
    """

    def __init__(self, users: Users, redis: str, most: int) -> None:
        self._users = users
        self._redis = redis
        self._most = most
        self._inside = 0
        self._visits: set[asyncio.Task[None]] = set()

    def open(self, door: Door) -> None:
        """Take connections from a door from now on."""
        asyncio.get_running_loop().add_reader(door, self._take, door)

    def _take(self, door: Door) -> None:
        for _ in range(_TURN):
            try:
                guest, _ = door.accept()
            except OSError:  # none waits, or it has left
                return
            assert isinstance(guest, Guest)
            visit = asyncio.create_task(self._visit(door, guest))
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)

    async def _visit(self, door: Door, guest: Guest) -> None:
        loop = asyncio.get_running_loop()
        try:
            guest.setblocking(False)
            try:
                async with asyncio.timeout(LOGIN_SECONDS):
                    greeting = await self._login(guest)
                if self._inside >= self._most:
                    raise Refused("ERR max number of clients reached")
                door.welcome(guest)
                self._inside += 1
                try:
                    await self._pass_on(guest, greeting)
                finally:
                    self._inside -= 1
            except Refused as refused:
                async with asyncio.timeout(LOGIN_SECONDS):
                    await loop.sock_sendall(guest, f"-{refused}\r\n".encode())
        except (OSError, TimeoutError):
            pass  # either side has left, or took too long
        finally:
            guest.close()

    async def _login(self, guest: Guest) -> bytes:
        """Read until the guest has logged in. Returns what it has sent.

        Raises:
            Refused: it sends something else, or a wrong password.
        """
        received = b""
        while (command := _command(received)) is None:
            part = await asyncio.get_running_loop().sock_recv(guest, _LOGIN_BYTES)
            if not part:
                raise ConnectionError
            received += part
        match [command[0].upper(), *command[1:]]:
            case [b"AUTH", user, password]:
                pass
            case [b"HELLO", _, word, user, password, *_] if word.upper() == b"AUTH":
                pass
            case _:
                raise Refused("NOAUTH Authentication required.")
        given = hashlib.sha256(password).hexdigest()
        known = self._users.get(user.decode("utf-8", "replace"), frozenset())
        if not any(hmac.compare_digest(given, digest) for digest in known):
            raise Refused("WRONGPASS invalid username-password pair or user is disabled.")
        return received

    async def _pass_on(self, guest: Guest, greeting: bytes) -> None:
        """Hand all bytes on, both ways, until one side ends the connection."""
        loop = asyncio.get_running_loop()
        guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        guest.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            guest.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_SECONDS)
        with socket.socket(socket.AF_UNIX) as redis:
            redis.setblocking(False)
            try:
                async with asyncio.timeout(LOGIN_SECONDS):
                    await loop.sock_connect(redis, self._redis)
            except OSError:
                raise Refused("LOADING Redis does not answer now") from None
            await loop.sock_sendall(redis, greeting)
            ways = {
                asyncio.create_task(_pump(source, sink)) for source, sink in ((guest, redis), (redis, guest))
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)


async def _pump(source: socket.socket, sink: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    # Not into a buffer of its own: an idle connection would keep it.
    while part := await loop.sock_recv(source, _CHUNK):
        await loop.sock_sendall(sink, part)


def _command(received: bytes) -> list[bytes] | None:
    """The first command that was received; None where its end is missing.

    Raises:
        Refused: it is none, or too long for one that logs in.
    """
    lines, at = _line(received, 0, b"*"), 0
    words: list[bytes] = []
    if lines is not None:
        count, at = lines
        if not 1 <= count <= _WORDS:
            raise Refused("NOAUTH Authentication required.")
        while len(words) < count and (line := _line(received, at, b"$")) is not None:
            size, at = line
            if len(received) < at + size + 2:
                break
            words.append(received[at : at + size])
            at += size + 2
        if len(words) == count:
            return words
    if len(received) > _LOGIN_BYTES:
        raise Refused("NOAUTH Authentication required.")
    return None


def _line(received: bytes, at: int, kind: bytes) -> tuple[int, int] | None:
    """The number in a line of this kind, and where the next line begins; None where its end is missing."""
    end = received.find(b"\r\n", at)
    digits = received[at + 1 : end] if end >= 0 else received[at + 1 :].removesuffix(b"\r")
    if received[at : at + 1] not in (kind, b"") or (digits and not digits.isdigit()) or len(digits) > 4:
        raise Refused("NOAUTH Authentication required.")
    if end < 0:
        return None
    if not digits:
        raise Refused("NOAUTH Authentication required.")
    return int(digits), end + 2


async def _run(given: argparse.Namespace, users: Users) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    gate = Gate(users, given.redis, _most_inside())
    if not await _redis_started(given.redis):
        log(
            "refused", level="error", error=f"Redis at {given.redis} was not ready within {START_SECONDS:g} s"
        )
        return 1
    for address in given.listen.split(","):
        for door in doors(address, given.port, places=PLACES, rate=RATE):
            gate.open(door)
    log("listening", addresses=given.listen, port=given.port)
    await stop.wait()
    return 0


def _most_inside() -> int:
    """Logged-in connections that the limit of open files allows, which is raised to its most."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        most = 2**20
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return max(1, (most - 4 * PLACES) // 2)  # each has a socket on either side


async def _redis_started(path: str) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            return True
        await asyncio.sleep(0.05)
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The gate in front of Redis, through which actors come in.")
    parser.add_argument("--listen", required=True, help="IP addresses, with commas between them")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--users", required=True, help="Redis' user file")
    parser.add_argument("--redis", required=True, help="the Unix socket of Redis")
    given = parser.parse_args(arguments)
    return asyncio.run(_run(given, users_of(Path(given.users).read_text())))


if __name__ == "__main__":
    sys.exit(main())
