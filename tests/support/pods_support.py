"""Actor processes as pods: each has an address of loopback of its own, and all of them one port."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from actor_support import RUN, container, environment
from local_support import redis_server, until
from nitro_actor import wire
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.knative import KnativeBackend
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundPlan, RoundResult
from ports import free_port
from stand_ins import served

TOKEN = "secret"
_numbers = itertools.count(2)


class Pod:
    """`python -m nitro_actor.server` at an address of its own."""

    def __init__(
        self, port: int, redis_url: str, config: dict[str, Any], timeout: float, actors: int
    ) -> None:
        number = next(_numbers)
        self.address = f"127.{os.getpid() % 250 + 1}.{number // 250}.{number % 250 + 1}"
        self.port = port
        self.log_file = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nitro_actor.server"],
            env=os.environ
            | {
                "NITRO_ENVIRONMENT": json.dumps(config),
                "NITRO_REDIS_URL": redis_url,
                "NITRO_TOKEN": TOKEN,
                "NITRO_TIMEOUT_SECONDS": str(timeout),
                "NITRO_HOST": self.address,
                "NITRO_ACTORS": str(actors),
                "PORT": str(port),
                "PYTHONPATH": str(Path(__file__).parent),
            },
            stdout=subprocess.DEVNULL,
            stderr=self.log_file,
        )

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        written = os.pread(self.log_file.fileno(), 2**24, 0).rpartition(b"\n")[0]
        return [json.loads(line) for line in written.splitlines()]

    def logged(self, event: str) -> int:
        """How often it has logged an event."""
        return sum(one["event"] == event for one in self.log())

    def ready(self) -> bool:
        """Whether it takes requests."""
        assert self.process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End it, and its actor processes."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # it works
            self.kill()
        self.log_file.close()


class Pods:
    """Pods, their Redis with weights 1, and a learner's side of them."""

    def __init__(self, redis_url: str, config: dict[str, Any], timeout: float, actors: int) -> None:
        self.redis_url = redis_url
        self.port = free_port()
        self._config, self._timeout, self._actors = config, timeout, actors
        self.pods: list[Pod] = []
        self.cache = RedisCache(redis_url, RUN)
        self.environment: dict[str, Any] = {}

    def start(self, count: int) -> list[str]:
        """Start pods, wait until they are ready, and return the addresses of all."""
        started = [
            Pod(self.port, self.redis_url, self._config, self._timeout, self._actors) for _ in range(count)
        ]
        self.pods += started
        until(lambda: all(pod.ready() for pod in started))
        return self.addresses

    @property
    def addresses(self) -> list[str]:
        return [pod.address for pod in self.pods]

    async def backend(self, url: str | None = None, **options: Any) -> KnativeBackend:
        """A backend whose activator is at `url`, by default the first pod."""
        found = KnativeBackend(
            url or self.pods[0].url, TOKEN, self.redis_url, port=self.port, per_pod=self._actors, **options
        )
        self.environment = await found.start()
        return found

    def dispatcher(self, backend: KnativeBackend, deadline: float | None = 120.0) -> Dispatcher:
        return Dispatcher(
            backend,
            self.cache,
            self.environment,
            envs=self._config["envs"],
            optional_tensors=(),
            timeout_seconds=self._timeout,
            deadline_seconds=deadline,
        )

    async def sample(
        self, work: Dispatcher, slots: int, *, steps: int, round: int = 1, min_actors: int = 1
    ) -> RoundResult:
        plan = RoundPlan(RUN, 5, round, 1, steps, min_actors)
        work.start_slots(plan, range(slots))
        async with asyncio.timeout(280):
            return await work.finish(plan)


@asynccontextmanager
async def pods(
    count: int,
    entry_point: str = "actor_support:Walk",
    *,
    kwargs: dict[str, Any] | None = None,
    envs: int = 1,
    timeout: float = 60.0,
    actors: int = 1,
) -> AsyncIterator[Pods]:
    """So many pods of an environment."""
    config = {"id": "Own-v0", "entryPoint": entry_point, "kwargs": kwargs or {}, "envs": envs}
    async with redis_server() as server:
        found = Pods(server.url, config, timeout, actors)
        try:
            found.start(count)
            # A walk's spaces are those of all environments that derive from it.
            spec = environment("Own-v0", envs, "actor_support:Walk").spec
            await found.cache.publish_weights(1, container(spec, version=1, normalise=False))
            yield found
        finally:
            await found.cache.close()
            for pod in found.pods:
                pod.end()


def worked(found: Sequence[Pod]) -> list[int]:
    """How many rollouts each pod has done."""
    return [pod.logged("done") for pod in found]


@asynccontextmanager
async def cutting(pod: Pod, seconds: float) -> AsyncIterator[str]:
    """A proxy in front of a pod that answers 504 after some seconds, as Knative's do, while the pod works on:
    its URL."""

    async def forward(request: web.Request) -> web.StreamResponse:
        return await _forwarded(request, pod, seconds)

    async with served(forward, forward) as url:
        yield url


class Activator:
    """A stand-in for Knative's activator while pods start: it holds requests until then, gives each to a free
    pod, and answers 504 when a request's whole time is over, while the pod works on."""

    def __init__(self, pods: Sequence[Pod], cold_seconds: float, timeout: float) -> None:
        self.url = ""
        self.asked: Counter[int] = Counter()
        """Requests by their slots."""
        self._free = list(pods)
        self._cold_seconds, self._timeout = cold_seconds, timeout
        self._there_at = 0.0

    def begins(self) -> None:
        """The pods' start begins now. Before that all are there."""
        self._there_at = asyncio.get_running_loop().time() + self._cold_seconds

    async def spec(self, request: web.Request) -> web.StreamResponse:
        return await _forwarded(request, self._free[0], self._timeout)

    async def rollout(self, request: web.Request) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        ends_at = clock() + self._timeout
        meta, _ = wire.decode(await request.read())
        self.asked[meta["slot"]] += 1
        await asyncio.sleep(max(0.0, self._there_at - clock()))
        pod = self._free.pop(0)
        try:
            return await _forwarded(request, pod, ends_at - clock())
        finally:
            self._free.append(pod)


@asynccontextmanager
async def starting(pods: Sequence[Pod], cold_seconds: float, timeout: float) -> AsyncIterator[Activator]:
    """Knative's activator in front of pods."""
    found = Activator(pods, cold_seconds, timeout)
    async with served(found.spec, found.rollout) as found.url:
        yield found


async def _forwarded(request: web.Request, pod: Pod, seconds: float) -> web.StreamResponse:
    """The pod's answer, or a proxy's 504 after some seconds."""
    body = await request.read()
    headers = {"Authorization": request.headers["Authorization"]}
    url = f"{pod.url}{request.path}"
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        try:
            async with asyncio.timeout(seconds):
                async with session.request(request.method, url, data=body, headers=headers) as answer:
                    return web.Response(status=answer.status, body=await answer.read())
        except TimeoutError:
            return web.Response(status=504, text="activator request timeout")
