"""Memory of the operator while the API server stores many large jobs, and whether it still takes up another.

    KUBEBUILDER_ASSETS=... python tests/benchmarks/bench_stored_jobs.py --jobs 2000 --kib 200
    python tests/benchmarks/bench_stored_jobs.py --streams --jobs 1000 --kib 32

The jobs are suspended, so nothing runs for them. kube-apiserver, etcd and the operator are real.
With `--streams`, what kopf's streams and the operator's own watch need for the jobs alone: an API server is
scripted, and each client is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

SUPPORT = Path(__file__).parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from apiserver import ApiServer  # noqa: E402
from kube_assets import find_assets  # noqa: E402
from nitro_operator.kube.kinds import LEARNER_JOB, TRAINING_JOB  # noqa: E402
from operator_support import (  # noqa: E402
    Object,
    OperatorProcess,
    eventually,
    install_knative,
    job,
    large_job,
)
from scripted_api import ScriptedApi  # noqa: E402

NAMESPACE = "bench"
CLIENTS = 4
CHANGE_SECONDS = 0.01


def bench(server: ApiServer, operator: OperatorProcess, jobs: int, kib: int) -> None:
    def store(number: int) -> None:
        server.request("POST", TRAINING_JOB.path(NAMESPACE), large_job(f"large-{number}", kib))

    def seen() -> bool:
        return f'nitro_jobs{{phase="Suspended"}} {jobs:.1f}' in operator.metrics()

    before = operator.memory_mib()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(store, range(jobs)))
    eventually(seen, seconds=1200, what="a status of every job")
    report(f"{jobs} jobs of {kib} KB, seen as they came", operator, before, jobs)
    operator.stop()
    began = time.monotonic()
    operator.start()
    eventually(seen, seconds=1200, what="a status of every job")
    print(f"a new operator is ready after {time.monotonic() - began:.1f} s")
    report("the same after a restart", operator, before, jobs)
    began = time.monotonic()
    server.request("POST", TRAINING_JOB.path(NAMESPACE), job("small"))
    path = LEARNER_JOB.path(NAMESPACE, "small-learner")
    eventually(lambda: server.request("GET", path), seconds=600, what="the learner of another job")
    print(f"another job has its learner after {time.monotonic() - began:.2f} s")
    operator.wait_for_resyncs(3)
    report("after three resyncs", operator, before, jobs)


def report(what: str, operator: OperatorProcess, before: float, jobs: int) -> None:
    now, highest = operator.memory_mib(), operator.memory_mib("VmHWM")
    each = 1024 * (now - before) / jobs
    print(f"{what}: {now:.0f} MiB, {each:.0f} KiB for each job; highest {highest:.0f} MiB")


class Need(NamedTuple):
    """What a client needs for each job."""

    start_ms: float
    change_ms: float
    kib: float


def stored(number: int, state: int, kib: int) -> Object:
    """A large job as the API server returns it, after its creation (0) or a change."""
    found = large_job(f"large-{number}", kib)
    found["metadata"] |= {
        "namespace": NAMESPACE,
        "uid": f"uid-{number}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": str(1 + number + 1_000_000 * state),
    }
    return found


async def client(program: str, jobs: int, kib: int) -> tuple[Object, Object]:
    """What a client has used when it knows all jobs, and when each has changed once."""
    path = Path(__file__).parent / "stream_clients.py"
    async with ScriptedApi().serve() as api:
        await api.store(*(stored(number, 0, kib) for number in range(jobs)))
        arguments = (program, api.url, str(jobs), str(jobs))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            path,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        begun = json.loads(await process.stdout.readline())
        for number in range(jobs):
            await api.store(stored(number, 1, kib))
            await asyncio.sleep(CHANGE_SECONDS)  # as in a cluster: one at a time
        changed = json.loads(await process.stdout.readline())
        await process.wait()
    return begun, changed


async def streams(jobs: int, kib: int) -> None:
    needs: dict[str, Need] = {}
    for program in ("kopf", "ours"):
        (one, one_more), (all_, all_more) = await client(program, 1, kib), await client(program, jobs, kib)
        changes = all_more["cpu"] - all_["cpu"] - (one_more["cpu"] - one["cpu"])
        needs[program] = Need(
            1000 * (all_["cpu"] - one["cpu"]) / (jobs - 1),
            1000 * changes / (jobs - 1),
            (all_["kib"] - one["kib"]) / (jobs - 1),
        )
    size = len(json.dumps(stored(0, 0, kib))) / 1024
    print(f"{jobs} jobs of {size:.0f} KiB, kopf {version('kopf')}, aiohttp {version('aiohttp')}")
    print(f"{'for each job':32}{'kopf':>10}{'ours':>10}")
    rows = ("CPU at the start (ms)", "CPU of a change (ms)", "memory (KiB)")
    for row, kopf, ours in zip(rows, needs["kopf"], needs["ours"], strict=True):
        print(f"{row:32}{kopf:10.2f}{ours:10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--kib", type=int, default=200, help="size of a job as JSON")
    parser.add_argument("--streams", action="store_true", help="kopf's streams beside the operator's watch")
    arguments = parser.parse_args()
    if arguments.streams:
        print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
        asyncio.run(streams(arguments.jobs, arguments.kib))
        return
    with tempfile.TemporaryDirectory() as folder, ApiServer(find_assets()) as server:
        server.apply_crd()
        install_knative(server)
        server.kubectl("create", "namespace", NAMESPACE)
        print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
        with OperatorProcess(
            server.kubeconfig, Path(folder) / "operator.log", NITRO_RESYNC_SECONDS="20"
        ) as operator:
            bench(server, operator, arguments.jobs, arguments.kib)


if __name__ == "__main__":
    main()
