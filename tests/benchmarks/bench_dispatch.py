"""Fan-out of 1,000 requests to actors that only sleep, against what a boto3 user gets.

    python tests/benchmarks/bench_dispatch.py [--requests 1000] [--seconds 0.2] [--repeat 5]

The stand-ins answer as actors do after ``--seconds``; they run in a process of their own, a plain asyncio
protocol so that the servers cost as little as possible. Measured is the wall time from the first request to
the last answer through the real HTTP core (KnativeBackend: capacity, keep-alive connections, strict reading
of the answer), beside urllib3's pool, which boto3 calls Lambda by: in as many threads as there are requests,
and in the few threads that a default pool has. All keep their connections: the first round opens them, the
others reuse them. The clients take turns, so that a busy machine is equally unfair to all; processor time is
the client's own.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import aiohttp
import numpy as np
import urllib3

from dispatch_support import ENVIRONMENT, ack_json
from nitro_actor.protocol.request import Request
from nitro_learner.backends.knative import KnativeBackend

FanOut = Callable[[], object]

GOAL_SECONDS = 0.6
ASKED = Request(
    "rollout", "run", 1, 0, 0, 7, 0, "nitro:run:weights", "nitro:run:results", 60,
    steps=512, state={"qpos": np.zeros(200)},
)  # fmt: skip
REQUEST = ASKED.encode()  # about 2,000 bytes, what one with a MuJoCo end state takes


def serve(seconds: float, ports: "multiprocessing.Queue[int]") -> None:
    """Sleeping actors: every request is answered after ``seconds``, on as many connections as come."""
    meta = {"kind": "rollout", "slot": 0, "attempt": 0, "steps": 512}
    answers = {path: _http(body) for path, body in ((b"POST", ack_json(meta)), (b"GET ", ENVIRONMENT))}

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport, self.buffer = transport, b""

        def data_received(self, data: bytes) -> None:
            self.buffer += data
            head, end, body = self.buffer.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            if end and len(body) >= int(length or 0):
                self.buffer = b""
                asyncio.get_running_loop().call_later(seconds, self.transport.write, answers[head[:4]])

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _http(body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(text),
        text,
    )


@contextmanager
def nitro(url: str, requests: int) -> Iterator[FanOut]:
    """Through the learner's own core."""
    with asyncio.Runner() as runner:
        backend = KnativeBackend(url, "token", "redis://nowhere", limit=requests)
        runner.run(backend.start())

        async def fan_out() -> None:
            await asyncio.gather(*(backend.invoke(ASKED, 60.0) for _ in range(requests)))

        yield lambda: runner.run(fan_out())
        runner.run(backend.close())


@contextmanager
def threads(url: str, requests: int, workers: int) -> Iterator[FanOut]:
    """By a thread pool over one urllib3 pool."""
    pool = urllib3.HTTPConnectionPool("127.0.0.1", int(url.rpartition(":")[2]), maxsize=workers, block=True)

    def call(_: int) -> object:
        response = pool.request("POST", "/v1/rollout", body=REQUEST, retries=False, timeout=60.0)
        assert response.status == 200
        return json.loads(response.data)

    with ThreadPoolExecutor(workers) as executor:
        yield lambda: list(executor.map(call, range(requests)))


def measure(fan_out: FanOut) -> tuple[float, float]:
    """Wall and processor seconds of one fan-out."""
    wall, processor = time.perf_counter(), time.process_time()
    fan_out()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    # Both ends of every connection, and some for Python.
    wanted = 2 * options.requests + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))

    context = multiprocessing.get_context("spawn")
    ports: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=serve, args=(options.seconds, ports), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ports.get(timeout=60)}"
    few = 10 * (os.cpu_count() or 1)
    print(f"{options.requests} requests of {options.seconds:g} s; goal {GOAL_SECONDS:g} s; {machine()}")
    print("| client | first | best | median | processor time, median |\n|---|---|---|---|---|")
    with ExitStack() as stack:
        clients = {
            "nitro (asyncio, one session)": nitro(url, options.requests),
            f"urllib3, {options.requests} threads": threads(url, options.requests, options.requests),
            f"urllib3, {few} threads": threads(url, options.requests, few),
        }
        fan_outs = {name: stack.enter_context(client) for name, client in clients.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in fan_outs}
        for turn in range(options.repeat):
            for name, fan_out in fan_outs.items():
                if turn == 0 or f" {few} " not in name:  # it takes ten seconds each time
                    times[name].append(measure(fan_out))
    for name, measured in times.items():
        walls, processor = zip(*measured, strict=True)
        print(
            f"| {name} | {walls[0]:.3f} s | {min(walls):.3f} s | {statistics.median(walls):.3f} s "
            f"| {statistics.median(processor):.3f} s |"
        )
    server.terminate()
    server.join()


def machine() -> str:
    """What it ran on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    load = os.getloadavg()[0]
    versions = (
        f"Python {platform.python_version()}, aiohttp {aiohttp.__version__}, urllib3 {version('urllib3')}"
    )
    return f"{cpu}, {os.cpu_count()} CPUs, load {load:.1f} before; {versions}"


if __name__ == "__main__":
    main()
