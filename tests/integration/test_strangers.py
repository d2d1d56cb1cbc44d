"""Connections without a login, held or opened again without pause, at every listener that Nitro starts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import redis

from nitro_actor.store import Store, StoreError
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.redis_server import find_executable
from nitro_operator import builders
from nitro_operator.builders.redis import gate_container, redis_container
from operator_objects import UID, make_view
from ports import free_port
from serve_support import served
from strangers import strangers
from train_support import job as small_job
from untrained_runs import untrained

GATE = "127.0.0.8"
"""Stands for the address of the learner's pod."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and many addresses of loopback")


class GatedRedis:
    """A Redis and its gate with the arguments that the operator gives them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        view = make_view()
        secret = builders.credentials_secret(view)["stringData"]
        (folder / "users.acl").write_text(secret["redis-acl"])
        self.learner = self._url(secret["redis-learner-url"], "127.0.0.1")
        self.actor = self._url(secret["redis-actor-url"], GATE)
        self.redis = self._start([find_executable()], redis_container(view)["args"], "redis")
        self.gate = self._start(
            [sys.executable, "-m", "nitro_learner.gate"], gate_container(view, "x")["args"], "gate"
        )
        eventually(lambda: redis.Redis.from_url(self.actor).ping(), "the gate lets nobody in", self._logs)

    def _start(self, command: list[str], arguments: list[str], name: str) -> subprocess.Popen[bytes]:
        replaced = {"6379": str(self.port), "$(POD_IPS)": GATE, "/tmp": str(self.folder)}
        replaced |= {"/etc/nitro/users.acl": str(self.folder / "users.acl")}
        replaced |= {"/tmp/redis.sock": str(self.folder / "redis.sock")}
        found = [replaced.get(argument, argument) for argument in arguments]
        with (self.folder / name).open("wb") as log:
            return subprocess.Popen([*command, *found], stdout=log, stderr=log)

    def _url(self, url: str, host: str) -> str:
        return f"{url.rpartition('@')[0]}@{host}:{self.port}/0"

    def _logs(self) -> str:
        return "\n".join((self.folder / name).read_text() for name in ("redis", "gate"))

    def stop(self) -> None:
        for process in (self.gate, self.redis):
            process.kill()
            process.wait()


def eventually(done: Callable[[], object], what: str, more: Callable[[], str] = str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError, redis.RedisError):
            if done():
                return
        time.sleep(0.05)
    raise AssertionError(f"{what}\n{more()}")


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[GatedRedis]:
    made = GatedRedis(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def memory_of(pid: int) -> int:
    """Resident memory of a process. Unit: MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


@pytest.mark.parametrize(
    ("held", "sent", "sources"),
    [
        pytest.param(12_000, 0, 4, id="12,000 that send nothing"),
        pytest.param(12_000, 1, 4, id="12,000 that begin a command"),
        pytest.param(100, 60, 2, id="opened again without pause, with what is no login"),
        pytest.param(40_000, 0, 4, id="more than any maxclients"),
    ],
)
async def test_strangers_keep_neither_the_learner_nor_new_actors_from_redis(
    gated: GatedRedis, held: int, sent: int, sources: int
) -> None:
    before = memory_of(gated.gate.pid)
    cache = RedisCache(gated.learner, UID)
    actors = [Store(gated.actor) for _ in range(4)]
    key = f"nitro:{UID}:round:1"
    with strangers(gated.port, host=GATE, held=held, sent=sent, sources=sources):
        for version in range(20):
            await cache.publish_weights(version, os.urandom(100_000))
            actors.append(Store(gated.actor))  # one starts in each round
            for actor in actors:
                weights = await asyncio.to_thread(actor.get, cache.weights_key(version))
                assert weights is not None
                await asyncio.to_thread(actor.append, key, weights, 600)
            for _ in actors:
                assert await cache.wait(key, 9.0) is not None
        assert open_files(gated.gate.pid) < 2_000
        assert memory_of(gated.gate.pid) - before < 64
        seen = redis.Redis.from_url(gated.learner).info("clients")
        assert seen["connected_clients"] <= len(actors) + 4, "Redis has not heard of a stranger"
    await cache.close()


def test_strangers_from_the_actors_own_address_do_not_shut_the_actors_out(gated: GatedRedis) -> None:
    """As behind an address translation: all have one address, so only the places are divided."""
    first = Store(gated.actor)
    assert first.get(f"nitro:{UID}:weights:0") is None
    with strangers(gated.port, host=GATE, held=600, sources=1, source="127.0.0.1"):

        def logs_in() -> bool:
            with suppress(StoreError):
                return Store(gated.actor).get(f"nitro:{UID}:weights:0") is None
            return False

        for _ in range(10):
            assert first.get(f"nitro:{UID}:weights:0") is None
            eventually(logs_in, "no login in time")


def test_the_gate_says_what_redis_says_to_who_does_not_log_in(gated: GatedRedis) -> None:
    right = gated.actor
    user, _, rest = right.partition("//")[2].partition(":")
    for wrong, message in (
        (f"redis://{user}:wrong@{rest.rpartition('@')[2]}", "WRONGPASS|invalid username-password"),
        (f"redis://nobody:{rest}", "WRONGPASS|invalid username-password"),
        (f"redis://{rest.rpartition('@')[2]}", "NOAUTH|Authentication required"),
    ):
        with pytest.raises(redis.AuthenticationError, match=message):
            redis.Redis.from_url(wrong).ping()
    assert redis.Redis.from_url(right, protocol=3).ping(), "HELLO logs in, too"


def test_a_restart_of_redis_is_told_as_one_that_passes(gated: GatedRedis) -> None:
    actor = Store(gated.actor)
    assert actor.get(f"nitro:{UID}:weights:0") is None
    gated.redis.kill()
    gated.redis.wait()
    with pytest.raises(StoreError, match="cannot be reached"):
        actor.get(f"nitro:{UID}:weights:0")
    with pytest.raises(redis.exceptions.BusyLoadingError):
        redis.Redis.from_url(gated.actor).ping()
    gated.redis = gated._start([find_executable()], redis_container(make_view())["args"], "redis")
    eventually(lambda: redis.Redis.from_url(gated.actor).ping(), "Redis does not come back")
    assert actor.get(f"nitro:{UID}:weights:0") is None


OPERATOR = """
import asyncio, sys
from aiohttp import web
from nitro_operator.serving import HttpServer
async def ok(_): return web.Response(text="ok")
async def main():
    await HttpServer(int(sys.argv[1]), {"/healthz": ok}).start()
    await asyncio.Event().wait()
asyncio.run(main())
"""
LEARNER = """
import sys, time
from nitro_learner.run.metrics import LearnerMetrics
LearnerMetrics("team", "hopper", begun=False).serve(int(sys.argv[1]))
time.sleep(3600)
"""


@contextmanager
def listening(program: str) -> Iterator[int]:
    """Runs a program with a port to listen on. Gives the port; the process's id is `listening.pid`."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", program, str(port)])
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def answers(port: int, path: str) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return bool(answer.status == 200)


def listener(port: int) -> int:
    """The process that listens on a port."""
    inodes = {
        line.split()[9]
        for version in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{version}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    }
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(link.readlink()).removeprefix("socket:[").rstrip("]") in inodes:
                return int(link.parts[2])
    raise AssertionError(f"nobody listens on {port}")


@pytest.mark.parametrize("which", ["operator", "learner", "serving"])
def test_strangers_keep_nobody_from_an_http_server(which: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if which == "serving":
            untrained(small_job(), tmp_path / "run")
            port = int(stack.enter_context(served(tmp_path / "run")).rpartition(":")[2])
        else:
            port = stack.enter_context(listening(OPERATOR if which == "operator" else LEARNER))
        path = "/metrics" if which == "learner" else "/healthz"
        eventually(lambda: answers(port, path), f"the {which} does not answer")
        pid = listener(port)
        before = memory_of(pid)
        for held, sent in ((12_000, 0), (12_000, 10), (100, 10)):
            with strangers(port, held=held, sent=sent, sources=2):
                for _ in range(5):
                    assert answers(port, path)
                assert open_files(pid) < 700
                assert memory_of(pid) - before < 64
                assert len(os.listdir(f"/proc/{pid}/task")) < 100  # noqa: PTH208
