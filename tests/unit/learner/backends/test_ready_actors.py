"""Which requests find a ready actor when they are made."""

from __future__ import annotations

import asyncio

import pytest

from nitro_actor.protocol.request import Request
from nitro_learner.backends.base import Ack
from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.http import HttpClient
from nitro_learner.backends.knative import KnativeBackend

REQUEST = Request("rollout", "run", 1, 0, 0, 7, 0, "weights", "results", 60, steps=8)
SECONDS = {"weights": 0.0, "rollout": 0.0, "store": 0.0, "total": 0.0}


class Patient:
    """Stands for all actors: answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waits: list[bool] = []

    async def rollout(self, *_: object, waits: bool) -> Ack:
        self.waits.append(waits)
        await self.go.wait()
        return Ack(0, 0, False, SECONDS, 0.1)


async def at_once(
    patch: pytest.MonkeyPatch, requests: int, limit: int, ready: int | None
) -> tuple[list[Ack], list[bool]]:
    """Make so many requests together. Returns their answers, and which of them might have waited."""
    backend, actors = KnativeBackend("http://actors", None, "redis://nowhere", limit=limit), Patient()
    patch.setattr(HttpClient, "rollout", actors.rollout)
    backend.set_actors(limit, ready, None)
    asked = [asyncio.create_task(backend.invoke(REQUEST, 1.0)) for _ in range(requests)]
    await asyncio.sleep(0)
    actors.go.set()
    return await asyncio.gather(*asked), actors.waits


@pytest.mark.parametrize(
    ("limit", "ready", "requests", "expected"),
    [
        (8, 8, 8, 8),
        (8, 3, 8, 3),
        (8, 0, 2, 0),
        (2, 2, 6, 2),  # four of them wait for a second and a third wave
        (8, None, 5, 5),  # the operator has not said how many are ready
    ],
)
def test_as_many_requests_find_a_ready_actor_as_there_are(
    monkeypatch: pytest.MonkeyPatch, limit: int, ready: int | None, requests: int, expected: int
) -> None:
    acks, _ = asyncio.run(at_once(monkeypatch, requests, limit, ready))
    assert sum(ack.found_ready for ack in acks) == expected


@pytest.mark.parametrize(
    ("limit", "ready", "expected"),
    [
        (8, 8, [False] * 8),
        (8, 3, [False] * 8),  # five of them wait here, until one is answered
        (8, 0, [True] * 8),
        (2, 2, [False] * 8),
        (8, None, [True] * 8),  # the operator has not said how many are ready
    ],
)
def test_requests_may_wait_behind_the_address_where_no_actor_is_ready(
    monkeypatch: pytest.MonkeyPatch, limit: int, ready: int | None, expected: list[bool]
) -> None:
    _, waits = asyncio.run(at_once(monkeypatch, 8, limit, ready))
    assert waits == expected


def test_outstanding_requests_are_those_in_flight_and_those_that_wait() -> None:
    async def scenario() -> list[int]:
        capacity = Capacity(2)
        waiting = [asyncio.create_task(capacity.acquire(0)) for _ in range(3)]
        await asyncio.sleep(0)
        found = [capacity.outstanding]
        capacity.release()
        await waiting[2]
        found.append(capacity.outstanding)
        return found

    assert asyncio.run(scenario()) == [3, 2]
