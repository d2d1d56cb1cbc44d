"""`nitro serve` as a process: actions are the library's, and bad requests are refused in a sentence."""

import asyncio
import re
import select
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

import nitro_learner as nitro
from agents_jobs import job as agents_job
from nitro_learner.deployment.serving import app
from nitro_learner.deployment.serving.app import serve
from serve_support import ask, served
from train_support import job as small_job
from train_support import nitro as command
from untrained_runs import untrained

ATARI = {
    "environment": {"id": "ALE/SpaceInvaders-v5", "rolloutLength": 32, "envsPerActor": 2},
    "network": {"hiddenSizes": [8], "convLayers": [{"channels": 2, "kernel": 8, "stride": 8}]},
}


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("hopper")
    untrained(small_job(algorithm={"preset": "tuned"}), folder)
    with served(folder, "--seed", "3") as url:
        yield folder, url


def test_actions_are_the_librarys(hopper: tuple[Path, str]) -> None:
    folder, url = hopper
    policy = nitro.load(folder)
    rows = np.random.default_rng(1).standard_normal((5, 11)).astype(np.float32)
    status, found = ask(url, {"observation": rows.tolist()})
    assert status == 200
    np.testing.assert_array_equal(np.array(found["action"], np.float32), policy.act(rows))
    _, one = ask(url, {"observation": rows[0].tolist()})
    np.testing.assert_array_equal(np.array(one["action"], np.float32), policy.act(rows[0]))
    drawn = [ask(url, {"observation": rows.tolist(), "deterministic": False})[1]["action"] for _ in range(2)]
    assert drawn[0] != drawn[1]
    status, told = ask(url, path="/v1/policy")
    assert status == 200
    assert (told["round"], told["environment"]) == (1, "Hopper-v5")
    assert told["agents"]["agent"]["observation"]["shape"] == [11]
    with urllib.request.urlopen(f"{url}/healthz", timeout=60) as answer:
        assert answer.status == 200


def test_several_agents_and_images_are_served(tmp_path: Path) -> None:
    untrained(agents_job(), tmp_path / "team")
    team = nitro.load(tmp_path / "team")
    seen = {agent: np.full(18, index, np.float32) for index, agent in enumerate(team.agents)}
    only = {agent: [False, False, True, False, False] for agent in team.agents}
    with served(tmp_path / "team") as url:
        observations = {agent: one.tolist() for agent, one in seen.items()}
        status, found = ask(url, {"observation": observations})
        assert (status, found) == (200, {"action": {a: int(one) for a, one in team.act(seen).items()}})
        _, found = ask(url, {"observation": observations, "available": only})
        assert set(found["action"].values()) == {2}
    untrained(small_job(**ATARI), tmp_path / "atari")
    policy = nitro.load(tmp_path / "atari")
    image = np.random.default_rng(2).integers(0, 256, policy.of("agent").observation["shape"], np.uint8)
    with served(tmp_path / "atari") as url:
        assert ask(url, {"observation": image.tolist()}) == (200, {"action": int(policy.act(image))})
        status, found = ask(url, {"observation": (image.astype(int) + 1).tolist()})
        assert (status, found) == (400, {"error": "observation: must be whole numbers from 0 to 255"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is no JSON: Expecting property name"),
        (b"", "the body is no JSON: "),
        (b'{"observation": [' + b"9" * 5000 + b"]}", "the body is no JSON: "),
        ([], 'a JSON object with an observation: {"observation": [...]}'),
        ({"observation": [0] * 11, "greedy": True}, "unknown: ['greedy']; known are observation, available"),
        ({"observation": [0] * 11, "\ud800": True}, "unknown: ['\\ud800']; known are"),
        (
            {"observation": [0] * 10},
            "agent: an observation has the shape [11], a batch [B, 11]; this is [10]",
        ),
        ({"observation": [[0] * 11, [0]]}, "observation: must be numbers, in rows of equal length"),
        ({"observation": ["a"] * 11}, "observation, available and state: must be numbers, none of"),
        (b'{"observation": [0], "observation": [0]}', "and no name of an object may come twice"),
        (
            {"observation": [[0] * 11] * (app.MOST_ROWS + 1)},
            "observation: a batch of 4097 rows, but this policy takes 4096 at most; divide it among several",
        ),
        ({"observation": None}, "observation: must be numbers, not object"),
        ({"observation": {"agent": [0] * 11}}, "the policy is of one agent"),
        ({"observation": {"nobody": [0] * 11}}, "there is no agent 'nobody'"),
        ({"observation": [1e39] * 11}, "observation: must be at most 3.4e+38"),
        ({"observation": [0] * 11, "state": [10**400]}, "state: agent needs numbers that float32 holds"),
        ({"observation": [0] * 11, "state": "x"}, "state: must be numbers, or an object"),
        ({"observation": [0] * 11, "state": {}}, "state: "),
        (b'{"observation": [NaN]}', "NaN is no number of JSON"),
        ({"observation": [0] * 11, "deterministic": 1}, "deterministic: must be true or false"),
        ({"observation": [0] * 11, "available": 1}, "available: must be a list of bools, or an object"),
        ({"observation": [0] * 11, "available": [1]}, "available: the actions of agent are real numbers"),
        (b'{"observation": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_wrong_request_is_refused_in_a_sentence(hopper: tuple[Path, str], body: Any, message: str) -> None:
    _, url = hopper
    status, found = ask(url, body)
    assert status == 400
    assert message in found["error"]
    assert ask(url, {"observation": [0] * 11})[0] == 200, "the next request is served"


def test_what_is_too_large_or_not_there_is_refused(hopper: tuple[Path, str]) -> None:
    _, url = hopper
    status, found = ask(url, b" " * (app.MOST_BYTES + 1))
    assert (status, list(found)) == (413, ["error"])
    assert ask(url, path="/v2")[0] == 404
    assert ask(url, {}, path="/v1/policy")[0] == 405


async def test_a_compressed_body_is_refused_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not aiohttp knows the encoding, and also where no body is read."""
    untrained(small_job(), tmp_path)
    listening = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(nitro.load(tmp_path), "127.0.0.1", 0, listening.set_result))
    async with ClientSession(await listening) as client:
        for encoding in ("gzip", "deflate", "br"):
            refused = await client.post("/v1/act", data=b"xx", headers={"Content-Encoding": encoding})
            error = f"the body has the Content-Encoding {encoding}; send it without"
            assert (refused.status, await refused.json()) == (415, {"error": error})
        plain = {"Content-Encoding": "Identity"}
        taken = await client.post("/v1/act", data=b'{"observation": [0,0,0,0,0,0,0,0,0,0,0]}', headers=plain)
        assert taken.status == 200
        assert (await client.get("/healthz", data=b"xx", headers={"Content-Encoding": "gzip"})).status == 200
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")]


LARGEST = [
    # Each `[]` of two bytes becomes a list of 56 bytes.
    (400, b'{"observation": [' + b",".join([b"[]"] * (app.MOST_BYTES // 3 - 10)) + b"]}"),
    # NumPy gives each of these numbers the room of the string, 4 kB.
    (400, b'{"observation": ["' + b"a" * 1000 + b'",' + b",".join([b"0"] * 1_000_000) + b"]}"),
    # The policy below remembers 4 kB of a row, and tells them in 20 kB.
    (400, b'{"observation": [' + b",".join([b"[0,0,0,0,0,0,0,0,0,0,0]"] * 80_000) + b"]}"),
    (200, b'{"observation": [' + b",".join([b"[0,0,0,0,0,0,0,0,0,0,0]"] * 256) + b"]}"),
]


def test_no_body_takes_much_memory(tmp_path: Path) -> None:
    """The pod of the example has 512 MiB."""
    untrained(small_job(network={"hiddenSizes": [8], "recurrent": {"hiddenSize": 1024}}), tmp_path)
    # A program by itself, because a fork counts what it shares.
    words = [sys.executable, "-m", "nitro_learner", "serve", tmp_path, "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        for status, body in LARGEST * 2:
            assert len(body) <= app.MOST_BYTES
            assert ask(url, body)[0] == status
        told = Path(f"/proc/{process.pid}/status").read_text()
        assert int(re.findall(r"VmHWM:\s+(\d+) kB", told)[0]) < 300 * 1024
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _begun(url: str, count: int, sent: int) -> Iterator[list[socket.socket]]:
    """Connections whose clients have sent so much of a body, and stop."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST /v1/act HTTP/1.1\r\nHost: a\r\nContent-Length: {app.MOST_BYTES}\r\n\r\n"
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            connection.sendall(head.encode() + b" " * sent)
            connections.append(connection)
        yield connections


def test_clients_that_send_slowly_hold_up_no_others(tmp_path: Path) -> None:
    untrained(small_job(), tmp_path)
    with served(tmp_path) as url:
        with _begun(url, 40, sent=1):
            begin = time.monotonic()
            assert ask(url, {"observation": [0] * 11})[0] == 200
            assert time.monotonic() - begin < app.BODY_SECONDS / 2
        with _begun(url, 17, sent=app.MOST_BYTES - 1) as connections:  # one more than there is memory for
            answered, _, _ = select.select(connections, [], [], app.BODY_SECONDS / 2)
            answer = answered[0].recv(4096)
            assert b"503" in answer.splitlines()[0]
            assert b'{"error": "other requests fill the memory; try again later"}' in answer
        end = time.monotonic() + app.BODY_SECONDS / 2
        while ask(url, {"observation": [0] * 11})[0] == 503:  # not all have been seen to leave yet
            assert time.monotonic() < end


async def test_a_request_waits_for_the_policy_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untrained(small_job(), tmp_path)
    policy = nitro.load(tmp_path)
    begun, goes_on = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        begun.set()
        assert goes_on.wait(60)
        return np.zeros(3)

    monkeypatch.setattr(policy, "act", slow)
    monkeypatch.setattr(app, "WAIT_SECONDS", 0.2)
    asked = {"observation": [0] * 11}
    async with TestClient(TestServer(app.make_app(policy))) as client:
        first = asyncio.create_task(client.post("/v1/act", json=asked))
        await asyncio.to_thread(begun.wait, 60)
        late = await client.post("/v1/act", json=asked)
        assert late.status == 503
        assert await late.json() == {"error": "other requests took more than 0.2 s; try again later"}
        goes_on.set()
        assert (await first).status == 200
        assert (await client.post("/v1/act", json=asked)).status == 200


def test_a_client_that_sends_no_body_is_let_go(tmp_path: Path) -> None:
    untrained(small_job(), tmp_path)
    with served(tmp_path) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"POST /v1/act HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            begin = time.monotonic()
            answer = connection.recv(4096)
        assert b"408" in answer.splitlines()[0]
        assert time.monotonic() - begin >= app.BODY_SECONDS - 1


@pytest.mark.parametrize("rows", [200_000, 2_000])
async def test_a_client_that_reads_no_answer_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Neither 3 MB nor what asyncio takes without telling that it waits, 32 kB, may stay for ever."""
    untrained(small_job(), tmp_path)
    policy = nitro.load(tmp_path)
    monkeypatch.setattr(policy, "act", lambda *_, **__: np.zeros((rows, 3)))
    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.2)
    async with TestServer(app.make_app(policy), socket_factory=_small) as server:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            connection.connect((server.host, server.port))
            body = b'{"observation": [0,0,0,0,0,0,0,0,0,0,0]}'
            head = f"POST /v1/act HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            for there in (True, False):
                async with asyncio.timeout(20):
                    while bool(server.runner.server.connections) is not there:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)


def _small(host: str, port: int, family: socket.AddressFamily) -> socket.socket:
    """A server's socket for which the kernel holds little."""
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    listening.bind((host, port))
    return listening


async def test_answers_that_nobody_reads_take_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untrained(small_job(), tmp_path)
    policy = nitro.load(tmp_path)
    monkeypatch.setattr(policy, "act", lambda *_, **__: np.zeros((200_000, 3)))
    monkeypatch.setattr(app, "_MOST_HELD", 3_400_012)
    asked = {"observation": [0] * 11}
    async with (
        TestServer(app.make_app(policy), socket_factory=_small) as server,
        TestClient(server) as slow,
        TestClient(server) as other,
    ):
        unread = await slow.post("/v1/act", json=asked)
        refused = await other.post("/v1/act", json=asked)
        assert refused.status == 503
        assert await refused.json() == {"error": "other answers fill the memory; try again later"}
        assert (await other.get("/v1/policy")).status == 200
        assert len(await unread.read()) > 3_000_000
        assert (await other.post("/v1/act", json=asked)).status == 200


def test_a_policy_or_port_that_is_not_there_ends_the_command(tmp_path: Path) -> None:
    for words, code, message in (
        ((tmp_path,), 2, "no checkpoint in it"),
        ((tmp_path / "nowhere",), 2, "nowhere does not exist"),
        (("s3://bucket",), 2, "s3://bucket: the address of a run is s3://BUCKET/PREFIX/RUN"),
        ((tmp_path, "--port", "70000"), 2, "--port 70000: must be from 0 to 65535"),
        ((tmp_path, "--seed", "-1"), 2, "--seed -1: must be 0 or more"),
    ):
        done = command("serve", *words)
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    untrained(small_job(), tmp_path)
    with served(tmp_path) as url:
        done = command("serve", tmp_path, "--port", url.rpartition(":")[2])
        assert done.returncode == 2
        assert "in use" in done.stderr
