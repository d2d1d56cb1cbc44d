"""A door, and its guests."""

import contextlib
import ipaddress
import socket
import struct
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from nitro_api.doors import socket_filter

BACKLOG = 4096
"""Connections that wait to be taken; the kernel lowers it to its own limit, net.core.somaxconn."""
SHUT_SECONDS = 10.0
"""Time for which a source is shut out."""
REMEMBERED_SECONDS = 600.0
"""Time for which the source of a login that has ended is not shut out."""
_MOST_SHUT = 128
"""Sources that the filter names; one more takes the place of the first one."""
_MOST_SOURCES = 4096
"""Sources whose rate is remembered."""
_MOST_AT_ONCE = 64
"""Connections that are refused before the server gets its turn again."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closed at once, without the minute in which the kernel remembers it."""


@dataclass(frozen=True)
class Rate:
    """How fast one source may open connections without a login."""

    burst: int
    """So many at once."""
    per_second: float
    """So many in each second after that."""
    shuts_out: bool = True
    """Whether a source that is faster is shut out for a time; else only what is too much is reset."""


class Guest(socket.socket):
    """A connection that came through a door."""

    def __init__(self, door: "Door", source: str, connection: socket.socket) -> None:
        super().__init__(connection.family, connection.type, connection.proto, connection.detach())
        self.source = source
        self._door = door

    def close(self) -> None:
        self._door.left(self)
        super().close()


class Door(socket.socket):
    """A listening TCP socket. Its `accept` returns guests, and raises BlockingIOError where none waits.

    Args:
        family: AF_INET or AF_INET6.
        address: address and port; port 0 picks a free one. `::` is IPv4 as well.
        places: connections at once, without those that have logged in.
        rate: how fast a source may open them; None = as fast as it can.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(
        self, family: int, address: tuple[Any, ...], *, places: int, rate: Rate | None = None
    ) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._places = places
        self._rate = rate
        self._lock = threading.Lock()
        self._guests: dict[str, dict[Guest, None]] = {}
        """Those that take a place, of each source; the oldest first."""
        self._taken = 0
        self._leaving: set[Guest] = set()
        """Those that lost their place, until the server has closed them."""
        self._welcome: set[Guest] = set()
        self._known: Counter[str] = Counter()
        """Sources of those who are welcome."""
        self._remembered: OrderedDict[str, float] = OrderedDict()
        """Sources of those who were, and until when they count as known."""
        self._credits: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._shut: dict[str, float] = {}
        """Sources that are shut out, and until when."""
        self._timer: threading.Timer | None = None
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # IPv4 as well only where all addresses are meant
                self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
            self.bind(address)
            self.listen(BACKLOG)
            self.setblocking(False)
        except OSError:
            super().close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that gets a place. Raises BlockingIOError where none waits."""
        for _ in range(_MOST_AT_ONCE):
            if len(self._leaving) >= self._places:  # the server must close some first
                break
            connection, address = super().accept()
            guest = Guest(self, _source(address[0]), connection)
            if self._admit(guest):
                return guest, address
            with contextlib.suppress(OSError):
                guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            guest.close()
        raise BlockingIOError

    def welcome(self, guest: Guest) -> None:
        """Note that a guest has logged in."""
        with self._lock:
            if self._remove(guest):
                self._welcome.add(guest)
                self._known[guest.source] += 1
                self._credits.pop(guest.source, None)

    def left(self, guest: Guest) -> None:
        """Note that a guest's connection is closed."""
        with self._lock:
            self._remove(guest)
            self._leaving.discard(guest)
            if guest in self._welcome:
                self._welcome.remove(guest)
                self._known[guest.source] -= 1
                self._known += Counter()  # without those that have none any more
                self._remembered.pop(guest.source, None)
                self._remembered[guest.source] = time.monotonic() + REMEMBERED_SECONDS
                if len(self._remembered) > _MOST_SOURCES:
                    self._remembered.popitem(last=False)

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        super().close()

    def _admit(self, guest: Guest) -> bool:
        with self._lock:
            if not self._has_credit(guest.source):
                if self._rate is not None and self._rate.shuts_out:
                    self._shut_out(guest.source)
                return False
            if self._taken >= self._places:
                self._make_room(guest.source)
            self._guests.setdefault(guest.source, {})[guest] = None
            self._taken += 1
            if self._shut:  # a connection inherits its door's filter, which would only cost time
                socket_filter.attach(guest, ())
            return True

    def _has_credit(self, source: str) -> bool:
        now = time.monotonic()
        if self._rate is None or source in self._known or self._remembered.get(source, 0.0) > now:
            return True
        credit, since = self._credits.pop(source, (float(self._rate.burst), now))
        credit = min(self._rate.burst, credit + (now - since) * self._rate.per_second)
        self._credits[source] = (max(0.0, credit - 1), now)
        if len(self._credits) > _MOST_SOURCES:
            self._credits.popitem(last=False)
        return credit >= 1

    def _make_room(self, newcomer: str) -> None:
        # Of sources that have equally many the newcomer's own: then nobody else loses a place to it.
        most = max(self._guests, key=lambda source: (len(self._guests[source]), source == newcomer))
        oldest = next(iter(self._guests[most]))
        self._remove(oldest)
        self._leaving.add(oldest)
        # The server then reads the end of the connection, and closes it.
        with contextlib.suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)

    def _remove(self, guest: Guest) -> bool:
        """Give back the guest's place. False if it has none."""
        held = self._guests.get(guest.source, {})
        if guest not in held:
            return False
        del held[guest]
        if not held:
            del self._guests[guest.source]
        self._taken -= 1
        return True

    def _shut_out(self, source: str) -> None:
        if source not in self._shut and len(self._shut) >= _MOST_SHUT:
            del self._shut[next(iter(self._shut))]
        self._shut[source] = time.monotonic() + SHUT_SECONDS
        socket_filter.attach(self, self._shut)
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        # A thread, because the server may sleep until a connection comes, which the filter keeps away.
        self._timer = threading.Timer(SHUT_SECONDS, self._let_in)
        self._timer.daemon = True
        self._timer.start()

    def _let_in(self) -> None:
        """Let in those whose time is over."""
        now = time.monotonic()
        with self._lock:
            self._timer = None
            if self.fileno() < 0:
                return
            self._shut = {source: until for source, until in self._shut.items() if until > now}
            socket_filter.attach(self, self._shut)
            if self._shut:
                self._wait()


def doors(host: str | None, port: int, *, places: int, rate: Rate | None = None) -> list[Door]:
    """Listen on the addresses of a host name; on all, of IPv4 and of IPv6, where there is none.

    Raises:
        OSError: an address cannot be listened on, or the name is not known.
    """
    if host is None and socket.has_dualstack_ipv6():
        return [Door(socket.AF_INET6, ("::", port), places=places, rate=rate)]
    doors_of_pod: list[Door] = []
    try:
        infos = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            doors_of_pod.append(Door(family, address, places=places, rate=rate))
    except OSError:
        for door in doors_of_pod:
            door.close()
        raise
    return doors_of_pod


def _source(address: str) -> str:
    """An IP address as the filter has it: one of IPv4 that came to a socket of both versions is IPv4."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(ip, "ipv4_mapped", None) or ip)
