"""Rollouts that outlast their requests: they are waited for, asked for once, paid, and stopped when nobody
takes them any more. The actors are processes, the Redis is real, and a proxy cuts as Knative's do."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from actor_support import RUN
from local_support import until
from nitro_learner.sampling.plans import RoundPlan
from pods_support import cutting, pods, starting, worked

SLOW = "actor_support:SlowWalk"


async def test_a_rollout_whose_request_was_cut_is_waited_for_and_paid() -> None:
    """3 s of work, cut after 2 s."""
    async with (
        pods(1, SLOW, kwargs={"seconds": 0.1}, timeout=2.0) as found,
        cutting(found.pods[0], 2.0) as url,
    ):
        backend = await found.backend(url)
        backend.set_actors(1, 1, None)
        work = found.dispatcher(backend)
        result = await found.sample(work, 1, steps=30)
        assert len(result.fragments) == 1
        assert result.fragments[0].meta["attempt"] == 0, "of the request that was cut"
        assert dict(result.stats.retries) == {"timeout": 1}
        await asyncio.to_thread(until, lambda: found.pods[0].logged("done") == 1)
        billed = sum(result.stats.billed_seconds)
        assert billed > 2.2, "the time after the cut is paid, too"
        async with asyncio.timeout(60):
            while await found.cache.worked_on(found.cache.round_key(1, 1), 0):  # noqa: ASYNC110 (of another process)
                await asyncio.sleep(0.05)
        await work.close()
        await backend.close()


async def test_slots_in_waves_are_each_asked_for_once() -> None:
    async with pods(2, SLOW, kwargs={"seconds": 0.1}, timeout=2.0) as found:
        backend = await found.backend(limit=2)
        backend.set_actors(2, 2, found.addresses)
        work = found.dispatcher(backend)
        result = await found.sample(work, 4, steps=30)
        assert len(result.fragments) == 4
        await asyncio.to_thread(until, lambda: sum(pod.logged("done") for pod in found.pods) == 4)
        # An actor that has delivered a fragment is free a moment later.
        retries = dict(result.stats.retries)
        assert retries.pop("busy", 0) <= 1, "none of them met an actor that works"
        assert retries == {"timeout": 4}
        await work.close()
        await backend.close()


@pytest.mark.parametrize(
    ("cold", "retries"),
    [
        pytest.param(2.5, {}, id="within the time-out"),
        pytest.param(4.5, {"unavailable": 2}, id="beyond it: the activator cuts the requests"),
    ],
)
async def test_a_cold_start_costs_neither_a_wave_nor_work_that_is_done_twice(
    cold: float, retries: dict[str, int]
) -> None:
    """A tenth of: time-out 60 s, cold start 25 s (45 s), rollout 30 s; two slots on two pods."""
    async with (
        pods(2, SLOW, kwargs={"seconds": 0.1}, timeout=6.0) as found,
        starting(found.pods, cold, 6.0) as activator,
    ):
        backend = await found.backend(activator.url, limit=2)
        work = found.dispatcher(backend)
        activator.begins()
        result = await found.sample(work, 2, steps=30)
        assert [one.meta["attempt"] for one in result.fragments] == [0, 0]
        assert dict(result.stats.retries) == retries
        await asyncio.to_thread(until, lambda: worked(found.pods) == [1, 1])
        assert max(activator.asked.values()) == 1, "each was asked for once"
        billed = sum(result.stats.billed_seconds)
        assert 0 < billed < 2 * 6.0, "two rollouts of 3 s, and not the wait for the pods"
        await work.close()
        await backend.close()


async def test_work_for_a_round_that_is_over_stops() -> None:
    async with pods(1, SLOW, kwargs={"seconds": 0.2}, timeout=60.0) as found:
        backend = await found.backend()
        backend.set_actors(1, 1, found.addresses)
        work = found.dispatcher(backend)
        plan = RoundPlan(RUN, 5, 1, 1, 1000, 1)
        work.start_slots(plan, range(1))
        list_key = found.cache.round_key(1, 1)
        async with asyncio.timeout(120):
            while not await found.cache.worked_on(list_key, 0):  # noqa: ASYNC110 (another process does it)
                await asyncio.sleep(0.05)
        await work.abandon(plan)
        await asyncio.to_thread(until, lambda: found.pods[0].logged("failed") == 1)
        (failed,) = [one for one in found.pods[0].log() if one["event"] == "failed"]
        assert (failed["code"], failed["status"]) == ("over", 410)
        # The same round again, as after a crash: what is left of the last one does not stop it.
        result = await found.sample(work, 1, steps=10)
        assert len(result.fragments) == 1
        await work.close()
        await backend.close()


@pytest.mark.parametrize("steps", [5])
async def test_short_work_leaves_nothing_in_redis(steps: int) -> None:
    async with pods(1) as found:
        backend = await found.backend()
        work = found.dispatcher(backend)
        await found.sample(work, 3, steps=steps)
        async with redis.asyncio.from_url(found.redis_url) as client:
            left = await client.keys("*")
        assert sorted(left) == [found.cache.weights_key(1).encode()]
        await work.close()
        await backend.close()
