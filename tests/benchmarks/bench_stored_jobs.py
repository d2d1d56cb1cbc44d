"""Memory of the operator while the API server stores many large jobs, and whether it still takes up another.

    KUBEBUILDER_ASSETS=... python tests/benchmarks/bench_stored_jobs.py --jobs 2000 --kib 200

The jobs are suspended, so nothing runs for them. kube-apiserver, etcd and the operator are real.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
sys.path.insert(0, str(SUPPORT))

from apiserver import ApiServer  # noqa: E402
from kube_assets import find_assets  # noqa: E402
from nitro_operator.kube.kinds import LEARNER_JOB, TRAINING_JOB  # noqa: E402
from operator_support import OperatorProcess, eventually, install_knative, job, large_job  # noqa: E402

NAMESPACE = "bench"
CLIENTS = 4


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--kib", type=int, default=200, help="size of a job as JSON")
    arguments = parser.parse_args()
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
