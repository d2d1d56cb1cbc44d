"""Doors: who gets a place, and who is shut out."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nitro_api.doors import Door, Guest, Rate, door, doors, socket_filter

QUIET = "127.0.0.2"
STRANGER = "127.0.0.3"


@pytest.fixture
def opened() -> Iterator[Callable[..., Door]]:
    """Makes doors on loopback, and closes them."""
    with ExitStack() as stack:

        def make(places: int = 4, rate: Rate | None = None) -> Door:
            return stack.enter_context(
                contextlib.closing(Door(socket.AF_INET, ("127.0.0.1", 0), places=places, rate=rate))
            )

        yield make


@pytest.fixture
def connect() -> Iterator[Callable[..., socket.socket]]:
    """Makes connections from an address of loopback, and closes them."""
    with ExitStack() as stack:

        def make(to: Door, source: str, seconds: float = 60.0) -> socket.socket:
            client = stack.enter_context(socket.socket())
            client.bind((source, 0))
            client.settimeout(seconds)
            client.connect(to.getsockname())
            return client

        yield make


def taken(at: Door) -> list[Guest]:
    """All that wait now."""
    found: list[Guest] = []
    with contextlib.suppress(BlockingIOError):
        while True:
            guest, _ = at.accept()
            assert isinstance(guest, Guest)
            found.append(guest)
    return found


def ended(client: socket.socket) -> bool:
    """Whether the other side has ended a connection."""
    client.settimeout(0.0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a_new_connection_takes_the_oldest_place_of_the_source_that_has_most(
    opened: Callable[..., Door], connect: Callable[..., socket.socket]
) -> None:
    at = opened(places=4)
    quiet = connect(at, QUIET)
    guests = taken(at)
    strangers = []
    for _ in range(20):
        strangers.append(connect(at, STRANGER))
        for guest in taken(at):
            guests.append(guest)
        for guest in guests:  # a server closes what has ended
            if guest.fileno() >= 0 and ended(guest):
                guest.close()
    assert not ended(quiet), "the oldest of all has its place, because its source has only one"
    assert [ended(one) for one in strangers] == [True] * 17 + [False] * 3
    another = connect(at, "127.0.0.4")
    guests += taken(at)
    assert not ended(another)
    assert not ended(quiet)


def test_a_server_that_does_not_close_gets_no_more_connections(
    opened: Callable[..., Door], connect: Callable[..., socket.socket]
) -> None:
    at = opened(places=2)
    clients = [connect(at, STRANGER) for _ in range(10)]
    guests = taken(at)
    assert len(guests) == 4, "two with a place, and two that lost theirs and are still open"
    for guest in guests:
        guest.close()
    assert len(taken(at)) == 4
    assert len(clients) == 10


def test_a_source_that_comes_too_fast_is_shut_out_for_a_time_and_no_other(
    opened: Callable[..., Door], connect: Callable[..., socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "SHUT_SECONDS", 0.5)
    at = opened(places=100, rate=Rate(burst=5, per_second=5.0))
    guests = []
    for _ in range(6):
        refused = connect(at, STRANGER)
        guests += taken(at)
    assert len(guests) == 5
    with pytest.raises(ConnectionError):  # reset, so that the kernel has forgotten it
        refused.recv(1)
    with pytest.raises(TimeoutError):  # the kernel drops its packets
        connect(at, STRANGER, seconds=0.1)
    connect(at, QUIET)
    assert len(taken(at)) == 1
    connect(at, STRANGER, seconds=60.0)  # the kernel tries again by itself
    assert taken(at)


def test_without_a_filter_in_the_kernel_the_connections_are_reset(
    opened: Callable[..., Door], connect: Callable[..., socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_filter, "attach", lambda *_: None)
    at = opened(places=100, rate=Rate(burst=5, per_second=0.001))
    clients = [connect(at, STRANGER) for _ in range(200)]
    guests = taken(at) + taken(at) + taken(at) + taken(at)
    assert len(guests) == 5
    assert [ended(client) for client in clients] == [False] * 5 + [True] * 195


def test_who_has_logged_in_takes_no_place_and_its_source_is_not_shut_out(
    opened: Callable[..., Door], connect: Callable[..., socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = opened(places=3, rate=Rate(burst=4, per_second=0.001))
    clients = [connect(at, QUIET)]
    (guest,) = taken(at)
    at.welcome(guest)
    clients += [connect(at, QUIET) for _ in range(6)]  # more than its rate
    others = taken(at)
    assert len(others) == 6
    assert not ended(clients[0])
    guest.close()
    connect(at, QUIET)  # remembered for some minutes
    for other in others:
        other.close()
    assert taken(at)
    monkeypatch.setattr(door, "REMEMBERED_SECONDS", 0.0)
    connect(at, "127.0.0.9")
    (another,) = taken(at)
    at.welcome(another)
    another.close()
    for _ in range(5):
        connect(at, "127.0.0.9")
        last = taken(at)
    assert not last, "forgotten, so the rate holds again"


def test_the_filter_names_many_sources_of_both_versions() -> None:
    with Door(socket.AF_INET6, ("::", 0), places=100) as at:
        port = at.getsockname()[1]
        many = [f"10.0.0.{index}" for index in range(64)] + [f"fd00::{index:x}" for index in range(64)]

        def reached(family: int, source: str, host: str) -> bool:
            with socket.socket(family) as client:
                client.bind((source, 0))
                client.settimeout(0.2)
                try:
                    client.connect((host, port))
                except TimeoutError:
                    return False
                return True

        socket_filter.attach(at, [*many, STRANGER, "::1"])
        assert not reached(socket.AF_INET, STRANGER, "127.0.0.1")
        assert reached(socket.AF_INET, QUIET, "127.0.0.1")
        assert not reached(socket.AF_INET6, "::1", "::1")
        socket_filter.attach(at, [*many, QUIET])
        assert reached(socket.AF_INET6, "::1", "::1")
        assert not reached(socket.AF_INET, QUIET, "127.0.0.1")
        socket_filter.attach(at, [])
        assert reached(socket.AF_INET, QUIET, "127.0.0.1")


def test_without_a_host_all_addresses_of_both_versions_are_listened_on() -> None:
    (at,) = doors(None, 0, places=4)
    with at:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, at.getsockname()[1]), 60):
                assert len(taken(at)) == 1


def test_a_port_that_is_taken_is_said() -> None:
    (at,) = doors("127.0.0.1", 0, places=4)
    with at, pytest.raises(OSError, match="in use"):
        doors("127.0.0.1", at.getsockname()[1], places=4)
