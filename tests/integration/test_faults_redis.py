"""Redis killed, restarted empty, or full in the middle of a round: retry, or a clear end."""

import asyncio
import os
import signal

import pytest

from local_support import assert_same, computing, local_round, sample, spec
from nitro_learner.backends.cache.base import CacheFull
from nitro_learner.sampling.plans import RoundFailed

LONG = {"id": "Hopper-v5", "rolloutLength": 4096, "envsPerActor": 2}


async def test_redis_killed_in_mid_round_comes_back_empty_and_the_round_is_the_same() -> None:
    async with local_round(spec(2, LONG)) as (backend, _, work):
        calm = await sample(work, 4, steps=4096)

        async def kill() -> None:
            await computing(backend.actor_pids)
            os.kill(backend.redis_pid or 0, signal.SIGKILL)

        killing = asyncio.create_task(kill())
        struck = await sample(work, 4, steps=4096)
        await killing
        assert_same(calm, struck)
        assert_same(calm, await sample(work, 4, steps=4096, round=1))


async def test_redis_killed_between_rounds_gets_its_weights_again() -> None:
    async with local_round(spec(2)) as (backend, cache, work):
        calm = await sample(work, 3)
        for pid in backend.actor_pids:  # a fresh actor has no weights in its own memory
            os.kill(pid, signal.SIGKILL)
        os.kill(backend.redis_pid or 0, signal.SIGKILL)
        struck = await sample(work, 3)
        assert_same(calm, struck)
        assert (await cache.memory()).used > 0


async def test_redis_without_room_for_one_fragment_fails_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_learner.backends.tasks.group._BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr("nitro_learner.backends.tasks.group.MAX_TRIES", 2)
    async with local_round(spec(2, LONG), redis_bytes=1_050_000) as (_, _, work):
        async with asyncio.timeout(120):
            with pytest.raises(RoundFailed, match=r"redis_full.*Redis is full"):
                await sample(work, 2, steps=4096)


async def test_redis_that_is_nearly_full_only_slows_the_round_down() -> None:
    """Fragments leave Redis as they are read, so room comes back and nothing is lost."""
    async with local_round(spec(2, LONG)) as (_, _, work):
        calm = await sample(work, 6, steps=4096)
    async with local_round(spec(2, LONG), redis_bytes=3 * 2**20) as (_, _, work):
        assert_same(calm, await sample(work, 6, steps=4096))


async def test_cache_refuses_weights_that_do_not_fit_and_says_so() -> None:
    async with local_round(spec(1), redis_bytes=2 * 2**20) as (_, cache, _):
        with pytest.raises(CacheFull, match="raise its maxmemory"):
            await cache.publish_weights(1, bytes(4 * 2**20))
