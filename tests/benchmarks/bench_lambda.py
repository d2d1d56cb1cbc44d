"""Fan-out to AWS Lambda through the real dispatcher, beside boto3; the real handler, cold, warm and failing.

    python tests/benchmarks/bench_lambda.py [--requests 100 256 1000] [--seconds 0.2] [--repeat 5]

The fan-out goes to a stand-in for the Invoke API that only sleeps, in a process of its own: it answers after
``--seconds`` with the fragment of the slot that it was asked for, made beforehand. Measured are the wall time
from the first slot's start to the last fragment, read and checked, and the learner's own processor time;
beside it boto3's client in as many threads as there are requests, whose answers are only parsed. Clients take
turns.

The handler runs in sandboxes of lambda_front: its image's entry point under the real awslambdaric.
"""

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import boto3
from bench_dispatch import machine, measure
from botocore.config import Config

from dispatch_support import ENVIRONMENT, ENVS, STEPS, ack_json, dispatcher, plan, stored
from lambda_support import CREDENTIALS, NAME, front, function, lambda_round, settings
from local_support import sample
from nitro_actor import wire
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.sampling.seeds import slot_seed

GOAL_SECONDS = 0.6
WEIGHTS = os.urandom(40_000)
"""About what a network of 2 x 64 takes."""

REPORT = (
    "REPORT RequestId: 1\tDuration: 200.00 ms\tBilled Duration: 200 ms\tMemory Size: 1024 MB\t"
    "Max Memory Used: 70 MB\t\n"
)
FanOut = Callable[[], object]


def serve(seconds: float, slots: int, rounds: int, ports: "multiprocessing.Queue[int]") -> None:
    """The Invoke API of a function that sleeps and then answers what was asked."""
    answers = {
        (number, slot): _http(_rollout(number, slot)) for number in range(rounds) for slot in range(slots)
    }
    spec = _http({"status": 200, "body": ENVIRONMENT})

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport, self.buffer, self.wanted = transport, bytearray(), 0

        def data_received(self, data: bytes) -> None:
            self.buffer += data
            if not self.wanted:
                head, end, _ = self.buffer.partition(b"\r\n\r\n")
                if end:
                    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                    self.wanted, self.begin = len(head) + 4 + int(length), len(head) + 4
            if self.wanted and len(self.buffer) >= self.wanted:
                event = json.loads(self.buffer[self.begin : self.wanted])
                self.buffer, self.wanted = bytearray(), 0
                answer = spec
                if event["kind"] == "rollout":
                    meta, _ = wire.decode(base64.b64decode(event["request"]))
                    answer = answers[meta["round"], meta["slot"]]
                asyncio.get_running_loop().call_later(seconds, self.transport.write, answer)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _rollout(number: int, slot: int) -> dict[str, Any]:
    meta = {"kind": "rollout", "run": "run-1", "round": number, "slot": slot, "attempt": 0, "steps": STEPS}
    meta |= {"seed": slot_seed(7, number, slot), "weights": {"version": 0}}
    fragment = base64.b64encode(stored(meta)).decode()
    return {"status": 200, "body": ack_json(meta), "fragment": fragment}


def _http(body: object) -> bytes:
    text = json.dumps(body).encode()
    log = base64.b64encode(REPORT.encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Amz-Log-Result: %s\r\nContent-Length: %d"
    return head % (log, len(text)) + b"\r\n\r\n" + text


@contextmanager
def nitro(url: str, requests: int) -> Iterator[FanOut]:
    """The learner: dispatcher, backend, payloads, bills."""
    with asyncio.Runner() as runner:
        backend = LambdaBackend(settings(url), ENVIRONMENT["id"], envs=ENVS, limit=requests)
        runner.run(backend.start())
        cache = backend.open_cache("run-1")
        runner.run(cache.publish_weights(0, WEIGHTS))
        work = dispatcher(backend, cache, deadline=60.0, timeout=60.0)
        number = iter(range(1_000))

        async def fan_out() -> None:
            this = plan(round=next(number), min_actors=requests, weights_version=0)
            work.start_slots(this, range(requests))
            result = await work.finish(this)
            assert len(result.fragments) == requests
            assert result.stats.billed_seconds == [0.2] * requests

        yield lambda: runner.run(fan_out())
        runner.run(work.close())
        runner.run(backend.close())


@contextmanager
def threads(url: str, requests: int) -> Iterator[FanOut]:
    """boto3's client, in as many threads as there are requests."""
    config = Config(max_pool_connections=requests, retries={"total_max_attempts": 1})
    client = boto3.client("lambda", "us-east-2", endpoint_url=url, config=config)
    event = {"kind": "rollout", "weights": base64.b64encode(WEIGHTS).decode()}

    def call(slot: int) -> object:
        meta = {"round": 0, "slot": slot}
        payload = {**event, "request": base64.b64encode(wire.encode(meta, {})).decode()}
        answer = client.invoke(FunctionName=NAME, LogType="Tail", Payload=json.dumps(payload).encode())
        return json.loads(answer["Payload"].read())

    with ThreadPoolExecutor(requests) as executor:
        yield lambda: list(executor.map(call, range(requests)))


def fan_outs(requests: list[int], seconds: float, repeat: int) -> None:
    """The table of both clients."""
    context = multiprocessing.get_context("spawn")
    ports: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=serve, args=(seconds, max(requests), repeat, ports), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ports.get(timeout=300)}"
    print(f"Invocations of {seconds:g} s; goal {GOAL_SECONDS:g} s for the last line; {machine()}")
    print("| requests | client | first | best | median | processor time per invocation, median |")
    print("|---:|---|---:|---:|---:|---:|")
    for count in requests:
        with nitro(url, count) as ours, threads(url, count) as theirs:
            clients = {"nitro": ours, "boto3 threads": theirs}
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
            for _ in range(repeat):
                for name, client in clients.items():
                    times[name].append(measure(client))
        for name, measured in times.items():
            walls, processor = zip(*measured, strict=True)
            wall, each = statistics.median(walls), statistics.median(processor) / count
            print(
                f"| {count} | {name} | {walls[0]:.3f} s | {min(walls):.3f} s | {wall:.3f} s "
                f"| {1e3 * each:.2f} ms |",
                flush=True,
            )
    server.terminate()
    server.join()


async def handler() -> None:
    """Cold and warm invocations of the real handler: Hopper, 8 environments, 512 steps."""
    print("\n| real handler, Hopper-v5, 512 steps | init | duration | billed | memory |")
    print("|---|---:|---:|---:|---:|")
    what = function({"id": "Hopper-v5", "envs": 8})
    starts = []
    for _ in range(3):
        async with front(what) as (aws, url):
            backend = LambdaBackend(settings(url), "Hopper-v5", envs=8, limit=1)
            await backend.start()
            starts.append(aws.bills[0])
            await backend.close()
    async with front(what) as (aws, url), lambda_round(url, limit=1, envs=8) as (_, work):
        for number in range(8):
            await sample(work, 1, steps=512, round=number)
        warm = aws.bills[2:]
    for name, bills in (("cold, no rollout", starts), ("warm", warm)):
        inits = [bill.init_seconds for bill in bills if bill.init_seconds is not None]
        init = f"{1e3 * statistics.median(inits):.0f} ms" if inits else "-"
        seconds = statistics.median(bill.seconds for bill in bills)
        billed = statistics.median(bill.billed_ms for bill in bills)
        print(f"| {name} | {init} | {1e3 * seconds:.0f} ms | {billed:.0f} ms | {bills[-1].used_mib} MiB |")


async def faults(rounds: int = 12, actors: int = 8, steps: int = 4096) -> None:
    """How much longer sampling takes when every tenth invocation fails.

    Among the faults are time-outs, so this depends on how far the function's time-out is above a rollout's
    time: here it is one and a half times the slowest undisturbed round.
    """
    kinds = ("throttled", "service_error", "timeout", "death")
    walls, timeout = [], 60.0
    for rate in (0.0, 0.1):
        what = function({"id": "Hopper-v5", "envs": 8}, timeout_seconds=timeout)
        seconds = []
        async with front(what, faults=kinds) as (aws, url):
            async with lambda_round(url, limit=actors, envs=8) as (_, work):
                await sample(work, actors, steps=steps, round=0)  # the cold starts
                aws.knobs.fault_rate = rate
                for number in range(1, rounds + 1):
                    began = time.perf_counter()
                    result = await sample(work, actors, steps=steps, round=number)
                    seconds.append(time.perf_counter() - began)
                    assert len(result.fragments) == actors
            failed = sum(bill.outcome != "ok" for bill in aws.bills) + len(aws.refused)
            billed = sum(bill.billed_ms for bill in aws.bills) / 1e3
        timeout = 1.5 * max(seconds)
        walls.append(sum(seconds))
        print(f"faults {rate:.0%}: {walls[-1]:.1f} s, {failed} failed, {billed:.1f} s billed", flush=True)
    print(f"ratio {walls[1] / walls[0]:.2f} over {rounds} rounds of {actors} actors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[100, 256, 1000])
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    os.environ |= CREDENTIALS
    # Both ends of every connection, of both clients, and some for Python.
    wanted = 4 * max(options.requests) + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, hard)), hard))
    fan_outs(options.requests, options.seconds, options.repeat)
    asyncio.run(handler())
    asyncio.run(faults())


if __name__ == "__main__":
    main()
