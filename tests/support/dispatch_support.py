"""Stand-ins around the dispatcher: what actors would have stored, and functions as actors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import numpy as np

from actor_support import from_one_agent
from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import OPTIONAL_TENSORS, Request
from nitro_learner.backends.base import Ack, RetryableError, answering
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.backends.capacity import Capacity
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundPlan

ENVIRONMENT: dict[str, Any] = {
    "protocol": PROTOCOL_VERSION,
    "id": "StandIn-v0",
    "observation": {"shape": [3], "dtype": "float32", "frame": [3], "stack": 1},
    "action": {"kind": "continuous", "size": 2, "low": [-1.0, -1.0], "high": [1.0, 1.0]},
    "resumable": True,
    "versions": {},
}
STEPS, ENVS = 12, 2


def fragment_of(meta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and tensors of a sound fragment for a request's metadata, all random numbers from its seed.
    The tensors are one agent's, named as the learner names them; `fragment_bytes` makes them a message. The
    optional ones are all there where the metadata does not name them.
    """
    rng = np.random.default_rng(meta["seed"])
    answer = {
        "protocol": PROTOCOL_VERSION,
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
    tensors = {
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
    unwanted = set(OPTIONAL_TENSORS).difference(meta.get("optionalTensors", OPTIONAL_TENSORS))
    return answer, {name: array for name, array in tensors.items() if name not in unwanted}


def fragment_bytes(meta: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    """The message of one agent's fragment, whatever its metadata and tensors are."""
    return wire.encode(meta, from_one_agent(tensors))


def stored(meta: dict[str, Any]) -> bytes:
    """The bytes that an actor would store for a request."""
    return fragment_bytes(*fragment_of(meta))


def old(meta: dict[str, Any]) -> bytes:
    """The bytes that an actor of protocol 1 would store for a request."""
    answer, tensors = fragment_of(meta)
    del answer["protocol"]
    return wire.encode(answer | {"schema": 1}, tensors)


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
        cold_start=answer["coldStart"],
        seconds=answer["seconds"],
        wall_seconds=0.02,
    )


class RecordingCache(MemoryCache):
    """The cache in this process; writes down which weights it was asked to restore. All versions up to 5 are
    published, and empty."""

    def __init__(self) -> None:
        super().__init__("run-1")
        self.restored: list[int] = []
        self.kept_versions = 10

    @classmethod
    async def published(cls) -> RecordingCache:
        cache = cls()
        for version in range(6):
            await cache.publish_weights(version, b"")
        return cache

    async def restore_weights(self, version: int) -> None:
        self.restored.append(version)


Behaviour = Callable[[dict[str, Any], RecordingCache], Awaitable[Ack]]


async def good(meta: dict[str, Any], cache: RecordingCache) -> Ack:
    """An actor that does what it should."""
    cache.put(meta["result"]["key"], stored(meta))
    return ack(meta)


async def hang(_meta: dict[str, Any], _cache: RecordingCache) -> Ack:
    await asyncio.sleep(3600)
    raise AssertionError


def failing(reason: str = "unavailable", billed: float = 0.0, *, deterministic: bool = False) -> Any:
    async def fail(_meta: dict[str, Any], _cache: RecordingCache) -> Ack:
        raise RetryableError(reason, "as told", billed, deterministic=deterministic)

    return fail


class FunctionBackend:
    """A backend whose actors are functions: ``script[slot]`` lists what its attempts do, then `good`."""

    redis_url = "redis://nowhere"
    grace_seconds = 0.0

    def __init__(self, cache: RecordingCache, limit: int = 100) -> None:
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

    @property
    def in_use(self) -> int:
        return self.capacity.in_flight

    def set_limit(self, limit: int) -> None:
        self.capacity.set_limit(limit)

    async def start(self) -> DescribedEnvironment:
        return DescribedEnvironment.from_json(ENVIRONMENT)

    async def invoke(self, request: Request, timeout: float, *, priority: int = 0) -> Ack:
        assert timeout > 0
        await self.capacity.acquire(priority)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            meta, state = wire.decode(request.encode())
            self.requests.append({**meta, "state": sorted(state)})
            script = self.script.get(meta["slot"], [])
            behave = script[meta["attempt"]] if meta["attempt"] < len(script) else self.default
            with answering(timeout):
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
    backend: Any,
    cache: Any,
    *,
    deadline: float | None = 20.0,
    timeout: float = 5.0,
    optional_tensors: Iterable[str] = OPTIONAL_TENSORS,
    environment: dict[str, Any] = ENVIRONMENT,
) -> Dispatcher:
    """A dispatcher with short times."""
    return Dispatcher(
        backend,
        cache,
        DescribedEnvironment.from_json(environment),
        envs=ENVS,
        optional_tensors=optional_tensors,
        timeout_seconds=timeout,
        deadline_seconds=deadline,
    )
