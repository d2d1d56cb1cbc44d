"""Which pod gets a request: the earliest free one of those that are awake."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from nitro_learner.backends import places
from nitro_learner.backends.places import ActorPlace, Places
from virtual_clock import VirtualClockLoop, settled

loop_factory = VirtualClockLoop

ACTIVATOR = "http://actors.team.svc"


def make(*addresses: str, granted: int = 100, per_pod: int = 1) -> Places:
    found = Places(ACTIVATOR, 1, per_pod=per_pod)
    found.update(granted, 100, addresses)
    return found


def url(address: str) -> str:
    return f"http://{address}:8012"


async def take(found: Places, count: int = 1) -> list[ActorPlace]:
    async with asyncio.timeout(1000):
        return [await found.acquire(0) for _ in range(count)]


async def test_the_earliest_free_pod_is_asked() -> None:
    found = make("10.0.0.1", "10.0.0.2", "fd00::3", per_pod=2)
    taken = await take(found, 6)
    wanted = [url("10.0.0.1")] * 2 + [url("10.0.0.2")] * 2 + [url("[fd00::3]")] * 2
    assert [place.url for place in taken] == wanted
    for place in (taken[4], taken[1]):
        found.release(place)
    assert [place.url for place in await take(found, 2)] == [url("10.0.0.1"), url("[fd00::3]")]


async def test_requests_in_flight_are_with_the_first_so_many_actors() -> None:
    found = make("a", "b", "c", "d", per_pod=2)
    taken = await take(found, 5)
    assert found.in_use == 6, "both actors of the third pod, of which one works"
    for place in taken[:4]:
        found.release(place)
    assert found.in_use == 6
    found.release(taken[4])
    assert found.in_use == 0


async def test_no_more_is_asked_than_was_granted_and_than_is_awake() -> None:
    found = make("a", "b", "c", granted=2)
    assert found.limit == 2
    taken = await take(found, 2)
    third = asyncio.create_task(found.acquire(0))
    await settled()
    assert not third.done()
    assert not found.free
    found.update(3, 100, ["a"])  # b has gone, and its request goes on there
    await settled()
    assert not third.done(), "only b's request has room, and not for another one"
    found.release(taken[1])
    await settled()
    assert not third.done()
    found.update(3, 100, ["a", "e"])
    assert (await third).url == url("e")
    assert found.in_use == 2


async def test_requests_at_pods_that_went_count_against_the_grant() -> None:
    found = make("a", "b", granted=3)
    taken = await take(found, 2)
    found.update(3, 100, ["c", "d"])
    assert (await take(found))[0].url == url("c")
    assert found.limit == 3
    fourth = asyncio.create_task(found.acquire(0))
    await settled()
    assert not fourth.done()
    found.release(taken[0])
    assert (await fourth).url == url("d")
    assert found.in_use == 3


async def test_a_pod_that_comes_back_still_has_its_request() -> None:
    found = make("a", "b")
    (first,) = await take(found)
    found.update(100, 100, ["b"])
    found.update(100, 100, ["a", "b"])
    (second,) = await take(found)
    assert (first.url, second.url) == (url("a"), url("b"))


async def test_an_address_that_refuses_is_left_alone_until_the_operators_next_word() -> None:
    found = make("a", "b")
    (first,) = await take(found)
    found.refuse(first)
    found.release(first)
    assert found.limit == 1
    (second,) = await take(found)
    assert second.url == url("b")
    waiting = asyncio.create_task(found.acquire(0))
    await settled()
    assert not waiting.done()
    found.update(100, 100, ["a", "b"])
    assert (await waiting).url == url("a")


async def test_without_an_operator_a_sleeping_pod_works_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(places, "_PATIENCE_SECONDS", 30.0)
    found = make(granted=4)
    await asyncio.sleep(500)  # the learner learns, and asks nobody
    began = loop.time()
    (place,) = await take(found)
    assert (place.url, loop.time() - began) == (ACTIVATOR, 30)
    found.update(4, 4, [])
    assert (await take(found))[0].url == ACTIVATOR, "it is no longer waited for"
    assert loop.time() - began == 30
    found.update(4, 4, ["a"])
    assert (await take(found))[0].url == url("a")
    assert found.in_use == 4, "the activator's request may be with anybody"


async def test_an_address_that_comes_in_time_is_waited_for() -> None:
    found = make()
    waiting = asyncio.create_task(found.acquire(0))
    await asyncio.sleep(29)
    found.update(100, 100, ["a"])
    assert (await waiting).url == url("a")
    await asyncio.sleep(500)
    found.update(100, 100, [])
    later = asyncio.create_task(found.acquire(0))
    await asyncio.sleep(29)
    assert not later.done()
    later.cancel()
    await asyncio.sleep(500)
    assert found.limit == 1, "the request that is with a"


async def test_the_activator_is_asked_where_no_addresses_are_published() -> None:
    found = Places(ACTIVATOR, 2, per_pod=4)
    assert found.limit == 2, "until the operator says more"
    found.update(16, 0, None)
    assert found.limit == 4, "the actors of the pod that a request starts"
    found.update(16, 8, None)
    assert {place.url for place in await take(found, 8)} == {ACTIVATOR}
    found.update(16, 8, ["a"])
    assert found.limit == 12
    found.update(16, 8, None)
    assert found.limit == 8


@pytest.mark.parametrize("seed", range(5))
async def test_random_pods_never_get_more_than_their_share(seed: int) -> None:
    rng = random.Random(seed)
    found, per_pod = Places(ACTIVATOR, 1, per_pod=2), 2
    names = [f"p{index}" for index in range(12)]
    in_flight = Counter[str]()

    async def work() -> None:
        place = await found.acquire(rng.randint(0, 1))
        in_flight[place.url] += 1
        try:
            await asyncio.sleep(rng.uniform(0, 5))
            if rng.random() < 0.1:
                found.refuse(place)
        finally:
            in_flight[place.url] -= 1
            found.release(place)

    working = [asyncio.create_task(work()) for _ in range(300)]
    while not all(one.done() for one in working):
        listed = [name for name in names if rng.random() < 0.5]
        found.update(rng.randint(1, 12), 100, listed)
        for one in rng.sample(working, 2):
            one.cancel()
        await asyncio.sleep(rng.uniform(0, 3))
        assert max(in_flight.values()) <= per_pod
        assert in_flight.total() <= 12, "never more than was granted at any time"
    await asyncio.gather(*working, return_exceptions=True)
    assert not [one for one in working if not one.cancelled() and one.exception()]
