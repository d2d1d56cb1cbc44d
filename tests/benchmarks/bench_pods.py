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
import math
import os
import statistics
import sys
import tempfile
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import run_outcome
import volumes
from actor_pods import oracle_of, slots_that_found_a_ready_actor
from harness import KNATIVE, Cluster, Object, kubectl, of_component
from jobs import hopper, merged
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


class PodHistory:
    """When each actor pod of a job was on a node, as the API server lists it, and its memory.

    It begins when a kubelet accepts it, and ends when its containers have ended.
    """

    def __init__(self, cluster: Cluster, namespace: str, per_pod: int) -> None:
        self.most = 0
        self.memory = 0.0
        """Largest mean memory of an actor. Unit: MiB."""
        self._per_pod = per_pod
        self._began: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._end = math.inf
        watching = (cluster, namespace)
        threading.Thread(target=self._follow, args=watching, daemon=True).start()
        threading.Thread(target=self._weigh, args=watching, daemon=True).start()

    def close(self) -> None:
        self._end = 0.0

    @property
    def started(self) -> int:
        return len(self._began)

    @property
    def paid(self) -> float:
        """Pod-seconds up to now."""
        return sum(self._gone.get(uid, time.time()) - began for uid, began in self._began.items())

    @property
    def drains(self) -> list[float]:
        """Seconds from a pod's deletion until it was gone."""
        return [self._gone[uid] - asked for uid, asked in self._asked.items() if uid in self._gone]

    def _follow(self, cluster: Cluster, namespace: str) -> None:
        pods, selector = cluster.kind("v1", "Pod"), of_component(NAME, "actor")
        for items in cluster.follow(pods, namespace, end=lambda: self._end, selector=selector):
            now = time.time()
            for uid, pod in items.items():
                began = pod.get("status", {}).get("startTime")
                if began:
                    self._began.setdefault(uid, datetime.fromisoformat(began).replace(tzinfo=UTC).timestamp())
                if pod["metadata"].get("deletionTimestamp"):
                    self._asked.setdefault(uid, now)
                if pod["status"].get("phase") in ("Succeeded", "Failed"):
                    self._gone.setdefault(uid, now)
            for uid in self._began.keys() - items.keys():
                self._gone.setdefault(uid, now)
            self.most = max(self.most, len(items))

    def _weigh(self, cluster: Cluster, namespace: str) -> None:
        node = cluster.core.list_node().items[0].metadata.name
        while self._end:
            time.sleep(5)
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
                self.memory = max(self.memory, statistics.fmean(sizes) / self._per_pod / 2**20)


def measure(cluster: Cluster, spec: Object, reference: Outcome, *, kill: bool) -> list[str]:
    """Run the job in a namespace of its own; its row of the table."""
    namespace = f"bench-{uuid.uuid4().hex[:6]}"
    per_pod = spec["actor"]["perPod"]
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    history = PodHistory(cluster, namespace, per_pod)
    with volumes.disks(cluster, 1) as disks:
        try:
            disks.provide(namespace, f"{NAME}-checkpoint")
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
            return row(job, history, equal=result == reference)
        finally:
            history.close()
            cluster.core.delete_namespace(namespace)
            disks.remove(namespace)


def counted(job: Object) -> Object | None:
    """The job once its status says that no pod is left; it is written up to two seconds after that."""
    return job if job["status"]["actors"]["draining"] == 0 else None


def row(job: Object, history: PodHistory, *, equal: bool) -> list[str]:
    """One row of the table."""
    status, per_pod = job["status"], job["spec"]["actor"]["perPod"]
    actors, rounds = status["actors"], [one["seconds"] for one in status["training"]["history"]]
    ready, slots = slots_that_found_a_ready_actor(status)
    middle = len(rounds) // 2
    halves = [statistics.median(part) for part in (rounds[:middle], rounds[middle:])]
    drains = f"{statistics.median(history.drains):.0f}" if history.drains else "-"
    paid = actors["podSeconds"] * per_pod / oracle_of(status).paid
    return [
        str(job["spec"]["scaling"]["hold"]),
        str(per_pod),
        f"{ready} of {slots} ({ready / slots:.0%})",
        str(history.started),
        str(history.most),
        f"{actors['startSeconds']:.0f}",
        drains,
        f"{actors['podSeconds']:,.0f} ({history.paid:,.0f})",
        f"{status['training']['busySeconds'] / per_pod:,.0f}",
        f"{paid:.2f}",
        f"{history.memory:.0f}",
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
    with tempfile.TemporaryDirectory() as folder:
        reference = run_outcome.local(spec, Path(folder))
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
