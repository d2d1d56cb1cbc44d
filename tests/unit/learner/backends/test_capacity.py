"""The limit on requests in flight: resizable, fair within a priority, safe to cancel."""

import asyncio

import pytest

from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.knative import KnativeBackend
from virtual_clock import VirtualClockLoop, settled

loop_factory = VirtualClockLoop


async def test_capacity_goes_to_the_lowest_priority_number_then_in_order() -> None:
    capacity = Capacity(1)
    await capacity.acquire(0)
    order: list[str] = []

    async def take(name: str, priority: int) -> None:
        await capacity.acquire(priority)
        order.append(name)
        capacity.release()

    tasks = [
        asyncio.create_task(take(name, priority))
        for name, priority in [("e1", 1), ("r1", 0), ("r2", 0), ("e2", 1)]
    ]
    await settled()
    capacity.release()
    await asyncio.gather(*tasks)
    assert order == ["r1", "r2", "e1", "e2"]


async def test_capacity_can_grow_and_shrink_while_some_wait() -> None:
    capacity = Capacity(1)
    running: list[asyncio.Event] = []

    async def work() -> None:
        await capacity.acquire(0)
        end = asyncio.Event()
        running.append(end)
        await end.wait()
        running.remove(end)
        capacity.release()

    async def settle() -> int:
        await settled()
        return len(running)

    tasks = [asyncio.create_task(work()) for _ in range(20)]
    assert await settle() == 1
    capacity.set_limit(5)
    assert await settle() == 5
    capacity.set_limit(2)
    for end in running[:3]:
        end.set()
    assert await settle() == 2, "three ended and none took their places"
    running[0].set()
    assert await settle() == 2
    while await settle():
        running[0].set()
    await asyncio.gather(*tasks)


async def test_without_capacity_all_wait_until_there_is_some() -> None:
    capacity = Capacity(0)
    waiting = [asyncio.create_task(capacity.acquire(0)) for _ in range(3)]
    await settled()
    assert (capacity.in_flight, capacity.waiting) == (0, 3)
    capacity.set_limit(2)
    await settled()
    assert (capacity.in_flight, capacity.waiting) == (2, 1)
    capacity.release()
    await asyncio.gather(*waiting)


async def test_capacity_passes_the_turn_of_a_cancelled_wait_to_the_next() -> None:
    capacity = Capacity(1)
    await capacity.acquire(0)
    first, second = (asyncio.create_task(capacity.acquire(0)) for _ in range(2))
    await settled()
    capacity.release()  # it is first's turn now, and in this same moment first is cancelled
    first.cancel()
    await asyncio.wait([first, second], timeout=1)
    assert first.cancelled()
    assert second.done()
    assert not second.cancelled()


@pytest.mark.parametrize("per_pod", [1, 2])
async def test_knative_backend_asks_no_more_actors_than_are_there(per_pod: int) -> None:
    backend = KnativeBackend("http://127.0.0.1:9", None, "redis://127.0.0.1:9", limit=8, per_pod=per_pod)
    assert backend.at_once == 8, "nothing is known of pods yet"
    for ready, at_once in ((0, per_pod), (2, 2), (20, 8)):
        backend.set_actors(8, ready, None)
        assert (backend.limit, backend.at_once) == (at_once, at_once)
    for pods, at_once in ((0, 0), (2, 2 * per_pod), (20, 8)):
        backend.set_actors(8, 8, [f"10.0.0.{pod}" for pod in range(pods)])
        assert (backend.limit, backend.at_once) == (max(1, at_once), at_once)
    backend.set_limit(3)
    assert backend.limit == 3
