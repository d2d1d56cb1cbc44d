"""Real actor processes and a real Redis for the learner's integration tests."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_api import JobSpec, load_job, resolve
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.local import LocalBackend
from nitro_learner.backends.processes import ProcessGroup
from nitro_learner.backends.redis_server import RedisServer
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundPlan, RoundResult

RUN = "run-1"


def spec(processes: int = 2, environment: dict[str, Any] | None = None) -> JobSpec:
    """A small Hopper job on local processes, or one of another environment."""
    manifest = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "test"},
        "spec": {
            "environment": environment or {"id": "Hopper-v5", "rolloutLength": 64, "envsPerActor": 2},
            "backend": {"type": "Local", "local": {"processes": processes}},
        },
    }
    return resolve(load_job(manifest)).spec


def weights(version: int, observations: int = 11, actions: int = 3) -> bytes:
    """A random policy for Hopper's spaces."""
    rng = np.random.default_rng(version)

    def noise(*shape: int) -> np.ndarray:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    network = {"kind": "mlp", "hidden": [16], "activation": "tanh", "head": "gaussian", "logStd": "state"}
    tensors = {
        "policy.layers.0.weight": noise(16, observations),
        "policy.layers.0.bias": noise(16),
        "policy.head.weight": noise(2 * actions, 16),
        "policy.head.bias": noise(2 * actions),
    }
    return WeightsContainer.of_one_agent(RUN, version, PolicyWeights(network, tensors)).encode()


@asynccontextmanager
async def local_round(
    job: JobSpec, *, timeout: float = 60.0, **options: Any
) -> AsyncIterator[tuple[LocalBackend, RedisCache, Dispatcher]]:
    """A started backend, its cache with weights 0, and a dispatcher."""
    backend = LocalBackend(job, RUN, **options)
    try:
        environment = await backend.start()
        cache = RedisCache(backend.redis_url, RUN)
        await cache.publish_weights(0, weights(0))
        work = Dispatcher(
            backend,
            cache,
            environment,
            envs=job.environment.envs_per_actor or 1,
            optional_tensors=job.algorithm.tensors,
            timeout_seconds=timeout,
            deadline_seconds=280.0,
        )
        try:
            yield backend, cache, work
        finally:
            await work.close()
            await cache.close()
    finally:
        await backend.close()


async def sample(
    work: Dispatcher, slots: int, *, round: int = 1, steps: int = 64, min_actors: int = 1, **changes: Any
) -> RoundResult:
    """One round with weights 0."""
    plan = RoundPlan(RUN, 5, round, 0, steps, min_actors, **changes)
    work.start_slots(plan, range(slots))
    return await work.finish(plan)


@asynccontextmanager
async def redis_server(memory_bytes: int = 2**28) -> AsyncIterator[RedisServer]:
    """A private Redis."""
    group = ProcessGroup()
    await group.start()
    try:
        server = RedisServer(group, memory_bytes)
        await server.start()
        yield server
    finally:
        await group.close()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which only waits to be reaped, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Waits for something that other processes do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


async def computing(pids: list[int], seconds: float = 120.0) -> int:
    """Wait until one of these processes computes, and return its process id: it has used at least three ticks
    of the CPU since the call, a small part of a long rollout."""
    before = {pid: _ticks(pid) for pid in pids}
    end = time.monotonic() + seconds
    while True:
        for pid in pids:
            if _ticks(pid) >= before[pid] + 3:
                return pid
        assert time.monotonic() < end, "none of the processes computes"
        await asyncio.sleep(0.001)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def private_folder(backend: LocalBackend) -> Path:
    """The folder of a backend's sockets and settings, from its Redis' address."""
    return Path(unquote(urlsplit(backend.redis_url).path)).parent


def children_of_group(pid: int) -> list[int]:
    """Processes whose process group is that of the guard that ``pid`` started, and the guard."""
    groups: dict[int, int] = {}
    guards = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        groups[int(entry.name)] = int(fields[2])
        if int(fields[1]) == pid and b"guard.py" in command:
            guards.append(int(entry.name))
    return [member for member, group in groups.items() if group in guards and member != os.getpid()]


def command_line(pid: int) -> str:
    """What every user of the machine sees of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def assert_same(one: RoundResult, other: RoundResult) -> None:
    """Two rounds have equal fragments, to the bit."""
    assert len(one.fragments) == len(other.fragments)
    for a, b in zip(one.fragments, other.fragments, strict=True):
        assert {**a.meta, "attempt": 0} == {**b.meta, "attempt": 0}
        np.testing.assert_equal((a.tensors, a.by_class), (b.tensors, b.by_class))
