"""What it costs the operator to put the actors of a job to sleep and to wake them: CPU, requests, time.

    KUBEBUILDER_ASSETS=... python tests/benchmarks/bench_sleep.py                # 64 and 256 actors
    KUBEBUILDER_ASSETS=... python tests/benchmarks/bench_sleep.py --actors 16 --gaps 10

The operator is a process of its own on a real API server. Pods are objects whose kubelet is a stand-in, which
takes long for hundreds of pods: the CPU is the operator's, the times are not a kubelet's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from apiserver import ApiServer
from cluster_support import Cluster
from kube_assets import find_assets
from kubelet_support import ASLEEP, AWAKE, Kubelet
from operator_support import OperatorProcess, eventually, install_knative
from sleep_support import Learner, actors

JOB = "bench"
PATIENCE_SECONDS = 600.0
RESTING_SECONDS = 20.0
"""Time for which sleepers are left alone."""
COLUMNS = (
    "actors",
    "CPU of a gap, s",
    "of a pod, ms",
    "requests of a gap",
    "of a pod",
    "while they sleep, % of a core",
)


@dataclass(frozen=True)
class Use:
    """CPU seconds and requests of the operator so far."""

    cpu: float
    requests: float

    @classmethod
    def of(cls, operator: OperatorProcess) -> Use:
        fields = Path(f"/proc/{operator.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        requests = sum(operator.requests(verb) for verb in ("GET", "PATCH", "POST", "DELETE"))
        return cls(ticks / os.sysconf("SC_CLK_TCK"), requests)


def measure(server: ApiServer, operator: OperatorProcess, pods: int, gaps: int) -> list[str]:
    """The row of a job of so many actors."""
    namespace = f"bench-{pods}"
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    cluster = Cluster(server, namespace)
    scaling = {"minActors": pods, "initialActors": pods, "maxActors": pods, "hold": 3600}
    with Learner(cluster, JOB, **scaling) as learner, Kubelet(cluster, JOB) as kubelet:

        def until(cpu: str, working: int) -> None:
            def there() -> bool:
                return kubelet.cpus() == [cpu] * pods and len(actors(cluster, JOB)["addresses"]) == working

            eventually(there, PATIENCE_SECONDS, f"{pods} actors with {cpu}")

        kubelet.start(pods)
        learner.says(needsNow=pods, needsLater=[], requestedActors=pods)
        until(AWAKE, pods)
        cpu = requests = 0.0
        for number in range(1, gaps + 1):
            before = Use.of(operator)
            later = [{"afterSeconds": 3600, "actors": pods}]
            learner.says(needsNow=0, needsLater=later, requestedActors=pods, round=number)
            until(ASLEEP, 0)
            learner.says(needsNow=pods, needsLater=[], requestedActors=pods, round=number)
            until(AWAKE, pods)
            after = Use.of(operator)
            cpu += (after.cpu - before.cpu) / gaps
            requests += (after.requests - before.requests) / gaps
        learner.says(needsNow=0, needsLater=later, requestedActors=pods, round=gaps + 1)
        until(ASLEEP, 0)
        before, began = Use.of(operator), time.monotonic()
        time.sleep(RESTING_SECONDS)
        resting = (Use.of(operator).cpu - before.cpu) / (time.monotonic() - began)
    cells = (
        f"{cpu:.2f}",
        f"{1000 * cpu / pods:.1f}",
        f"{requests:.0f}",
        f"{requests / pods:.1f}",
        f"{resting:.1%}",
    )
    return [str(pods), *cells]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actors", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--gaps", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ApiServer(find_assets()) as server:
        server.apply_crd()
        install_knative(server)
        print(
            f"load {os.getloadavg()[0]:.0f}\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|",
            flush=True,
        )
        for pods in arguments.actors:
            with OperatorProcess(server.kubeconfig, Path(folder) / f"operator-{pods}.log") as operator:
                print(f"| {' | '.join(measure(server, operator, pods, arguments.gaps))} |", flush=True)
    print(f"\nload at the end {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
