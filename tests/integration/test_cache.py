"""The trajectory cache on a real Redis: versions, lists, a full server, one that is gone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from local_support import redis_server
from nitro_learner.backends.cache.base import CacheError, CacheFull, CacheUnreachable
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.redis_server import RedisServer


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    async with redis_server() as server:
        yield server


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.from_url(server.url)
    yield client
    await client.aclose()


@pytest.fixture
async def cache(server: RedisServer) -> AsyncIterator[RedisCache]:
    cache = RedisCache(server.url, "run")
    yield cache
    await cache.close()


async def test_only_the_newest_two_versions_stay(cache: RedisCache, client: redis.asyncio.Redis) -> None:
    for version in range(5):
        await cache.publish_weights(version, b"weights %d" % version)
    stored = {await client.get(key) for key in await client.keys("nitro:run:weights:*")}
    assert stored == {b"weights 3", b"weights 4"}
    assert await client.get(cache.weights_key(4)) == b"weights 4"
    assert 0 < await client.ttl(cache.weights_key(4)) <= 6 * 3600


async def test_keys_follow_the_weights(cache: RedisCache, client: redis.asyncio.Redis) -> None:
    """A run that came to other weights under the same version must not meet what was made with the old."""
    await cache.publish_weights(3, b"one history")
    before = cache.weights_key(3), cache.round_key(4, 3), cache.evaluation_key(3)
    await cache.publish_weights(3, b"another history")
    assert not set(before) & {cache.weights_key(3), cache.round_key(4, 3), cache.evaluation_key(3)}
    assert await client.exists(before[0]) == 0
    await cache.publish_weights(3, b"one history")
    assert before == (cache.weights_key(3), cache.round_key(4, 3), cache.evaluation_key(3))


async def test_fragments_come_in_order_and_in_bounded_portions(
    cache: RedisCache, client: redis.asyncio.Redis
) -> None:
    messages = [b"%d" % number for number in range(100)]
    await client.rpush("list", *messages)
    first = await cache.pop("list")
    assert first == messages[:64]
    assert await cache.wait("list", 1.0) == messages[64]
    assert await cache.pop("list") == messages[65:]
    assert await cache.pop("list") == []
    assert await cache.wait("list", 0.05) is None
    await client.rpush("list", b"left over")
    await cache.clear("list", stop=False)
    assert await cache.pop("list") == []


async def test_a_wait_ends_when_a_fragment_comes(cache: RedisCache, client: redis.asyncio.Redis) -> None:
    waiting = asyncio.create_task(cache.wait("list", 9.9))
    async with asyncio.timeout(120):
        while not (await client.info("clients"))["blocked_clients"]:  # noqa: ASYNC110 - Redis only answers
            await asyncio.sleep(0.01)
        await client.rpush("list", b"fragment")
        assert await waiting == b"fragment"


@pytest.mark.parametrize("after", [0.0, 0.0005, 0.001, 0.002, 0.05])
async def test_a_cancelled_consumer_ends(cache: RedisCache, after: float) -> None:
    async def consume() -> None:
        while True:
            if not await cache.pop("list"):
                await cache.wait("list", 0.2)

    consumer = asyncio.create_task(consume())
    await asyncio.sleep(after)
    consumer.cancel()
    await asyncio.wait([consumer], timeout=120)
    assert consumer.cancelled()


async def test_lost_weights_are_restored_once(cache: RedisCache, client: redis.asyncio.Redis) -> None:
    await cache.publish_weights(7, b"weights")
    await client.flushall()
    await asyncio.gather(*(cache.restore_weights(7) for _ in range(10)))
    assert await client.get(cache.weights_key(7)) == b"weights"


async def test_a_full_redis_is_an_error_and_loses_nothing() -> None:
    async with redis_server(memory_bytes=3 * 2**20) as server:
        cache = RedisCache(server.url, "run")
        await cache.publish_weights(0, bytes(100_000))
        with pytest.raises(CacheFull, match="Redis is full, cannot store 4194304 bytes of weights"):
            await cache.publish_weights(1, os.urandom(4 * 2**20))
        memory = await cache.memory()
        assert memory.limit == 3 * 2**20
        assert memory.used > 0
        await cache.close()


async def test_a_redis_that_is_gone_is_unreachable_in_bounded_time() -> None:
    async with redis_server() as server:
        cache = RedisCache(server.url, "run")
        await cache.publish_weights(0, b"weights")
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
        await server.process.wait()
        async with asyncio.timeout(120):
            with pytest.raises(CacheUnreachable, match="Redis does not answer"):
                await cache.publish_weights(1, b"weights")
            with pytest.raises(CacheUnreachable):
                await cache.wait_reachable(0.3)
        await server.start()
        await cache.wait_reachable(60.0)
        await cache.restore_weights(1)
        assert await cache.pop(cache.round_key(1, 1)) == []
        await cache.close()


async def test_a_wrong_password_is_reported_at_once(server: RedisServer) -> None:
    cache = RedisCache(server.url.replace("unix://:", "unix://:x"), "run")
    with pytest.raises(CacheError, match="user or password"):
        await cache.publish_weights(0, b"weights")
    await cache.close()
