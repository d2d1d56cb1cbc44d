"""Rollouts by address, with actors as processes that have addresses of their own, and a real Redis."""

from __future__ import annotations

import asyncio

import pytest

from local_support import assert_same
from nitro_learner.backends import places
from pods_support import pods, worked

STEPS = 64


async def test_the_first_awake_pods_work_and_the_results_are_those_of_any_pods() -> None:
    async with pods(3) as found:
        backend = await found.backend(limit=3)
        work = found.dispatcher(backend)
        calm = await found.sample(work, 6, steps=STEPS)  # through the activator: the first pod
        assert worked(found.pods)[1:] == [0, 0]
        backend.set_actors(3, 3, found.addresses[1:])
        awake = await found.sample(work, 6, steps=STEPS, round=1)
        assert_same(calm, awake)
        first, second, third = worked(found.pods)
        assert first == 6, "no further work for the pod that sleeps"
        assert second + third == 6
        assert min(second, third) > 0
        backend.set_actors(3, 3, found.addresses[1:])
        alone = await found.sample(work, 1, steps=STEPS, round=2)
        assert len(alone.fragments) == 1
        assert worked(found.pods) == [first, second + 1, third], "the earliest free one"
        await work.close()
        await backend.close()


async def test_actors_that_share_a_pod_share_its_address() -> None:
    async with pods(2, actors=2) as found:
        backend = await found.backend(limit=1)
        work = found.dispatcher(backend)
        backend.set_actors(4, 4, found.addresses)
        assert backend.limit == 4
        result = await found.sample(work, 4, steps=STEPS)
        assert len(result.fragments) == 4
        assert dict(result.stats.retries) == {}
        assert worked(found.pods) == [2, 2]
        await work.close()
        await backend.close()


async def test_a_pod_that_has_gone_is_left_alone_until_the_operator_speaks() -> None:
    async with pods(3) as found:
        backend = await found.backend(limit=3)
        work = found.dispatcher(backend)
        backend.set_actors(3, 3, found.addresses)
        await found.sample(work, 3, steps=STEPS)
        gone = found.pods[1]
        gone.kill()
        result = await found.sample(work, 6, steps=STEPS, round=2)
        assert len(result.fragments) == 6
        assert sum(result.stats.retries.values()) <= 2, result.stats.retries
        assert backend.limit == 2
        await asyncio.to_thread(found.start, 1)
        backend.set_actors(3, 3, [address for address in found.addresses if address != gone.address])
        result = await found.sample(work, 3, steps=STEPS, round=3)
        assert (len(result.fragments), dict(result.stats.retries)) == (3, {})
        await work.close()
        await backend.close()


async def test_a_round_waits_for_pods_that_wake_however_short_its_deadline_is() -> None:
    async with pods(2) as found:
        backend = await found.backend(limit=2)
        backend.set_actors(2, 2, [])
        work = found.dispatcher(backend, deadline=0.5)
        sampling = asyncio.create_task(found.sample(work, 2, steps=STEPS, min_actors=2))
        done, _ = await asyncio.wait({sampling}, timeout=2)
        assert not done
        assert worked(found.pods) == [0, 0]
        backend.set_actors(2, 2, found.addresses)
        result = await sampling
        assert (len(result.fragments), result.stats.deadline_misses) == (2, 0)
        await work.close()
        await backend.close()


async def test_a_pod_that_sleeps_works_where_nobody_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PATIENCE_SECONDS", 0.5)
    async with pods(1) as found:
        backend = await found.backend(limit=2)
        backend.set_actors(2, 1, [])
        work = found.dispatcher(backend)
        result = await found.sample(work, 2, steps=STEPS)
        assert len(result.fragments) == 2
        await work.close()
        await backend.close()
