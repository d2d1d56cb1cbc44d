"""Stand-ins around the dispatcher: what actors would have stored, a cache in memory, functions as actors."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from nitro_actor import wire
from nitro_learner.backends.base import Ack, RetryableError, answering
from nitro_learner.backends.capacity import Capacity
from nitro_learner.dispatch import Dispatcher
from nitro_learner.plans import RoundPlan

ENVIRONMENT: dict[str, Any] = {
    "protocol": 1,
    "id": "StandIn-v0",
    "observation": {"shape": [3], "dtype": "float32", "frame": [3], "stack": 1},
    "action": {"kind": "continuous", "size": 2, "low": [-1.0, -1.0], "high": [1.0, 1.0]},
    "resumable": True,
    "versions": {},
}
STEPS, ENVS = 12, 2


def fragment_of(meta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and tensors of a sound fragment for a request's metadata, all random numbers from its seed."""
    rng = np.random.default_rng(meta["seed"])
    answer = {
        "schema": 1,
        "kind": meta["kind"],
        "weightsVersion": meta["weights"]["version"],
        "steps": meta.get("steps", 30),
        "envs": ENVS,
        "resumed": False,
        **{name: meta[name] for name in ("run", "round", "slot", "attempt", "seed")},
    }
    if meta["kind"] == "evaluate":
        episodes = meta["episodes"]
        return answer, {
            "episode_returns": rng.normal(size=episodes),
            "episode_lengths": np.full(episodes, 10),
        }
    length = meta["steps"] // ENVS

    def noise(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    terminated, truncated = np.zeros((2, length, ENVS), bool)
    terminated[1, 0] = truncated[2, 1] = True
    return answer, {
        "observations": noise(length, ENVS, 3),
        "actions": noise(length, ENVS, 2),
        "log_probs": noise(length, ENVS),
        "distribution": noise(length, ENVS, 4),
        "rewards": noise(length, ENVS),
        "terminated": terminated,
        "truncated": truncated,
        "last_observations": noise(ENVS, 3),
        "final_observations": noise(1, 3),
        "episode_returns": rng.normal(size=2),
        "episode_lengths": np.array([2, 3]),
        "state/qpos": rng.normal(size=(ENVS, 5)),
    }


def stored(meta: dict[str, Any]) -> bytes:
    """The bytes that an actor would store for a request."""
    return wire.encode(*fragment_of(meta))


def ack_json(meta: dict[str, Any]) -> dict[str, Any]:
    """The answer that an actor gives with it."""
    seconds = {"weights": 0.0, "rollout": 0.01, "store": 0.001, "total": 0.011}
    return {
        "slot": meta["slot"],
        "attempt": meta["attempt"],
        "bytes": 1000,
        "steps": meta.get("steps", 30),
        "coldStart": meta["attempt"] == 0,
        "seconds": seconds,
        "rssBytes": 10**6,
    }


def ack(meta: dict[str, Any]) -> Ack:
    """The same, parsed."""
    answer = ack_json(meta)
    return Ack(
        slot=answer["slot"],
        attempt=answer["attempt"],
        bytes=answer["bytes"],
        steps=answer["steps"],
        cold_start=answer["coldStart"],
        seconds=answer["seconds"],
        rss_bytes=answer["rssBytes"],
        wall_seconds=0.02,
    )


class MemoryCache:
    """TrajectoryCache without Redis."""

    def __init__(self) -> None:
        self.kept_versions = 2
        self.lists: dict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self.restored: list[int] = []

    def weights_key(self, version: int) -> str:
        return f"weights:{version}"

    def round_key(self, round: int, version: int) -> str:
        return f"round:{round}:{version}"

    def evaluation_key(self, version: int) -> str:
        return f"evaluation:{version}"

    async def pop(self, key: str) -> list[bytes]:
        messages = []
        while not self.lists[key].empty():
            messages.append(self.lists[key].get_nowait())
        return messages

    async def wait(self, key: str, seconds: float) -> bytes | None:
        try:
            async with asyncio.timeout(seconds):
                return await self.lists[key].get()
        except TimeoutError:
            return None

    async def wait_reachable(self, seconds: float) -> None:
        assert seconds > 0

    async def restore_weights(self, version: int) -> None:
        self.restored.append(version)

    async def clear(self, key: str) -> None:
        self.lists.pop(key, None)


Behaviour = Callable[[dict[str, Any], MemoryCache], Awaitable[Ack]]


async def good(meta: dict[str, Any], cache: MemoryCache) -> Ack:
    """An actor that does what it should."""
    cache.lists[meta["result"]["key"]].put_nowait(stored(meta))
    return ack(meta)


async def hang(_meta: dict[str, Any], _cache: MemoryCache) -> Ack:
    await asyncio.sleep(3600)
    raise AssertionError


def failing(reason: str = "unavailable", billed: float = 0.0, *, deterministic: bool = False) -> Any:
    async def fail(_meta: dict[str, Any], _cache: MemoryCache) -> Ack:
        raise RetryableError(reason, "as told", billed, deterministic=deterministic)

    return fail


class FunctionBackend:
    """A backend whose actors are functions: ``script[slot]`` lists what its attempts do, then `good`."""

    redis_url = "redis://nowhere"

    def __init__(self, cache: MemoryCache, limit: int = 100) -> None:
        self.cache = cache
        self.capacity = Capacity(limit)
        self.ready: int | None = None
        self.script: dict[int, list[Behaviour]] = {}
        self.default: Behaviour = good
        self.requests: list[dict[str, Any]] = []
        self.running = self.most = 0

    @property
    def limit(self) -> int:
        return self.capacity.limit

    @property
    def at_once(self) -> int:
        return self.limit if self.ready is None else self.ready

    def set_limit(self, limit: int) -> None:
        self.capacity.set_limit(limit)

    async def start(self) -> dict[str, Any]:
        return ENVIRONMENT

    async def invoke(self, request: bytes, timeout: float, *, priority: int = 0) -> Ack:
        assert timeout > 0
        await self.capacity.acquire(priority)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            meta, state = wire.decode(request)
            self.requests.append({**meta, "state": sorted(state)})
            script = self.script.get(meta["slot"], [])
            behave = script[meta["attempt"]] if meta["attempt"] < len(script) else self.default
            with answering():
                return await behave(meta, self.cache)
        finally:
            self.running -= 1
            self.capacity.release()

    async def close(self) -> None:
        pass


def plan(round: int = 3, min_actors: int = 1, **changes: Any) -> RoundPlan:
    """A plan for ENVIRONMENT."""
    values = {"run": "run-1", "seed": 7, "round": round, "weights_version": round, "steps": STEPS}
    return RoundPlan(**(values | {"min_actors": min_actors} | changes))


def dispatcher(
    backend: Any, cache: Any, *, deadline: float | None = 20.0, timeout: float = 5.0
) -> Dispatcher:
    """A dispatcher with short times."""
    return Dispatcher(
        backend, cache, ENVIRONMENT, envs=ENVS, timeout_seconds=timeout, deadline_seconds=deadline
    )
