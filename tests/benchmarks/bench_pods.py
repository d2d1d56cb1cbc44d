"""Actor pods on a cluster: who found a ready one, how many were started, and what they cost.

    python tests/benchmarks/bench_pods.py                        # one job under `hold: auto`
    python tests/benchmarks/bench_pods.py --per-pod 1 4 8        # the same with so many actors in a pod
    python tests/benchmarks/bench_pods.py --hold auto 0          # with 0 pods follow the requests: many drain
    python tests/benchmarks/bench_pods.py --kill                 # Knative's programs and the learner die

It uses the cluster of KUBECONFIG, where the release must be installed (`make e2e` does that). The jobs run
one after the other. The result of each is compared with that of `nitro train`, to the bit. Pods are counted
as the API server lists them, and the operator's own figures are compared with that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import run_outcome
from actor_pods import oracle_of, slots_that_found_a_ready_actor
from harness import KNATIVE, Cluster, Object, kubectl, of_component
from jobs import hopper, merged
from own_namespace import own_namespace
from pod_history import PodHistory
from run_outcome import Outcome

NAME = "bench"
KILLED = ("activator", "controller", "autoscaler", "learner")
COLUMNS = (
    "hold",
    "actors in a pod",
    "slots with a ready actor",
    "pods started",
    "most pods at a time",
    "start, s",
    "drain, s",
    "pod-seconds paid (listed)",
    "used",
    "paid / oracle",
    "MiB of an actor",
    "all rounds, s",
    "round, s: first half, second half",
    "equal to the local run",
)


class Memory:
    """The largest mean memory of an actor, as the kubelet measures it, until `close`. Unit: MiB."""

    def __init__(self, cluster: Cluster, namespace: str, per_pod: int) -> None:
        self.most = 0.0
        self._per_pod = per_pod
        self._closed = threading.Event()
        threading.Thread(target=self._weigh, args=(cluster, namespace), daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _weigh(self, cluster: Cluster, namespace: str) -> None:
        node = cluster.core.list_node().items[0].metadata.name
        while not self._closed.wait(5):
            answer = kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary")
            pods = json.loads(answer)["pods"] if answer.startswith("{") else []
            sizes = [
                container["memory"]["workingSetBytes"]
                for pod in pods
                if pod["podRef"]["namespace"] == namespace
                for container in pod.get("containers", [])
                if container["name"] == "actor" and "workingSetBytes" in container.get("memory", {})
            ]
            if sizes:
                self.most = max(self.most, statistics.fmean(sizes) / self._per_pod / 2**20)


def measure(cluster: Cluster, spec: Object, reference: Outcome, *, kill: bool) -> list[str]:
    """Run the job in a namespace of its own; its row of the table."""
    with own_namespace(cluster, NAME) as namespace:
        history = PodHistory(cluster, namespace, NAME)
        memory = Memory(cluster, namespace, spec["actor"]["perPod"])
        try:
            cluster.create_job(namespace, NAME, spec)
            for number, who in enumerate(KILLED if kill else (), start=1):
                cluster.until_round(namespace, NAME, number * spec["stop"]["rounds"] // (len(KILLED) + 1))
                ours = who == "learner"
                cluster.kill(
                    namespace if ours else KNATIVE, of_component(NAME, who) if ours else f"app={who}"
                )
            cluster.until_phase(namespace, NAME, "Succeeded", timeout=1800)
            cluster.until_no_pods(namespace, NAME, "actor")
            job = cluster.until_job(namespace, NAME, counted, what="the last pods are counted")
            result = run_outcome.on_cluster(cluster, namespace, NAME)
            return row(job, history, memory.most, equal=result == reference)
        finally:
            history.close()
            memory.close()


def counted(job: Object) -> Object | None:
    """The job once its status says that no pod is left; it is written up to two seconds after that."""
    return job if job["status"]["actors"]["draining"] == 0 else None


def row(job: Object, history: PodHistory, memory: float, *, equal: bool) -> list[str]:
    """One row of the table."""
    status, per_pod = job["status"], job["spec"]["actor"]["perPod"]
    actors, rounds = status["actors"], [one["seconds"] for one in status["training"]["history"]]
    ready, slots = slots_that_found_a_ready_actor(status)
    middle = len(rounds) // 2
    halves = [statistics.median(part) for part in (rounds[:middle], rounds[middle:])]
    paid = actors["podSeconds"] * per_pod / oracle_of(status).paid
    return [
        str(job["spec"]["scaling"]["hold"]),
        str(per_pod),
        f"{ready} of {slots} ({ready / slots:.0%})",
        str(len(history.spans)),
        str(history.most),
        f"{actors['startSeconds']:.0f}",
        f"{history.median('draining'):.0f}",
        f"{actors['podSeconds']:,.0f} ({history.paid:,.0f})",
        f"{status['training']['busySeconds'] / per_pod:,.0f}",
        f"{paid:.2f}",
        f"{memory:.0f}",
        f"{sum(rounds):.0f}",
        f"{halves[0]:.1f}, {halves[1]:.1f}",
        "yes" if equal else "NO",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--most", type=int, default=24, help="maxActors")
    parser.add_argument("--per-pod", type=int, nargs="+", default=[1])
    parser.add_argument("--hold", nargs="+", default=["auto"])
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    spec = hopper(rounds=arguments.rounds, actors=(4, 8, arguments.most))
    with tempfile.TemporaryDirectory() as folder, run_outcome.local(spec, Path(folder)) as run:
        reference = run.outcome
    cluster = Cluster(os.environ.get("RELEASE", "nitro"), os.environ.get("NAMESPACE", "nitro-system"))
    load = os.getloadavg()[0]
    print(f"{arguments.rounds} rounds of {reference.actors} actors, load {load:.0f}\n")
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for hold, per_pod in itertools.product(arguments.hold, arguments.per_pod):
        holding = {"hold": hold if hold == "auto" else int(hold)}
        one = merged(spec, {"scaling": holding, "actor": {"perPod": per_pod}})
        print(f"| {' | '.join(measure(cluster, one, reference, kill=arguments.kill))} |", flush=True)
    print(f"\nload at the end {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
