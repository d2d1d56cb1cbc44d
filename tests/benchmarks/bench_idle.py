"""What actors cost while the learner learns: CPU that their pods request, against what they use.

    python tests/benchmarks/bench_idle.py                         # every row, half an hour
    python tests/benchmarks/bench_idle.py --rows 2s 10s           # some rows
    python tests/benchmarks/bench_idle.py --rows 10s --rounds 3   # a short one
    python tests/benchmarks/bench_idle.py --rows long --held      # beside a run that holds its actors
    python tests/benchmarks/bench_idle.py --rows long --two       # and two such jobs at once on the node
    python tests/benchmarks/bench_idle.py --pictures FOLDER       # and the pods of each run, drawn

It uses the cluster of KUBECONFIG, where the release must be installed (`make e2e` does that); its platform
limit must allow 16 actors. The jobs run one after the other. Their environment's steps sleep, so 16 actors
sample as long on a small node as on a large one. Only the update needs CPU: its length follows from its
epochs and from the machine. Where 16 actors do not fit, rounds sample in two waves.

- paid: the requests that the scheduler counts, over time, from a pod's place on a node until it is gone.
- used: an awake pod's request, for the seconds that the learner says its actors worked.
- pool: 16 pods for the wall clock of all rounds; in dollars with its own start and drain.
- ideal: of each round the sampling as set and the update as measured.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import volumes
from bench_pods import counted
from harness import Cluster, Object, training
from jobs import TINY_LEARNER
from own_namespace import own_namespace
from pod_history import PodHistory

from nitro_api.costs.pod_prices import AUTOPILOT
from nitro_learner.run.views.pod_bars import draw_lives
from nitro_learner.run.views.pod_lives import STATES, vcpu_seconds

NAME = "bench"
CODE = "environment"
"""The ConfigMap with the environment."""
ACTORS = 16
STEPS = 20
"""Of a rollout; each sleeps."""
MODULE = "sleeping_environment"
ACTOR: Object = {"requests": {"cpu": "75m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}
"""16 of them fit on a node of two cores beside Knative and a learner."""
COLUMNS = (
    "run",
    "sampling, update, s",
    "rounds",
    "paid, vCPU-s: starting, awake, asleep, draining",
    "used",
    "paid / used",
    "pool / used",
    "dollars / pool's",
    "wall / ideal, s",
    "end of round 1 after, s",
    "start, drain, s",
)


@dataclass(frozen=True)
class Row:
    """A job of the table: how long its actors sample and its learner learns.

    Attributes:
        epochs: of the update, 80 gradient steps each.
        schedule: actors of each round; where there is none, 16 in every round.
    """

    sampling: float
    rounds: int
    epochs: int = 5
    schedule: tuple[int, ...] | None = None
    hold: int | str = "auto"
    sleep: str = "auto"

    def spec(self) -> Object:
        scaling: Object = {"minActors": 4, "maxActors": ACTORS, "hold": self.hold, "sleep": self.sleep}
        if self.schedule:
            scaling |= {"scaler": "schedule", "schedule": list(self.schedule)}
        else:
            scaling |= {"scaler": "fixed", "initialActors": ACTORS}
        return {
            "seed": 7,
            "environment": {
                "entryPoint": f"{MODULE}:Sleeping",
                "kwargs": {"seconds": self.sampling / STEPS},
                "rolloutLength": STEPS,
                "envsPerActor": 1,
            },
            "algorithm": {"name": "ppo", "hyperparameters": {"epochs": self.epochs, "minibatchSize": 4}},
            "evaluation": {"episodes": 1, "everyRounds": 1000},
            "stop": {"rounds": self.rounds},
            "scaling": scaling,
            "actor": {
                "resources": ACTOR,
                "env": [{"name": "PYTHONPATH", "value": "/bench"}],
                "volumes": [{"name": "bench", "configMap": {"name": CODE}}],
                "volumeMounts": [{"name": "bench", "mountPath": "/bench"}],
            },
            "learner": {
                "resources": TINY_LEARNER,
                "checkpoint": {"pvc": {"size": "1Gi", "retain": False}},
            },
        }


def _steps(rounds: int) -> tuple[int, ...]:
    """4, 4, 16, 16, 4, ..."""
    return tuple(4 if number % 4 < 2 else ACTORS for number in range(rounds))


ROWS = {
    "2s": Row(2, 12),
    "10s": Row(10, 10),
    "30s": Row(30, 8),
    "long": Row(10, 10, epochs=180),
    "very-long": Row(10, 10, epochs=1000),
    "4-16": Row(10, 16, schedule=_steps(16)),
    "4-16-hold-0": Row(10, 16, schedule=_steps(16), hold=0),
}


@dataclass(frozen=True)
class Run:
    """What a job came to."""

    name: str
    row: Row
    job: Object
    history: PodHistory
    metrics: list[dict[str, str]]
    first: float
    """Seconds from its creation to the report of round 1."""

    @property
    def wall(self) -> float:
        """Of all rounds. Unit: seconds."""
        return sum(float(one["seconds_total"]) for one in self.metrics)

    @property
    def updates(self) -> list[float]:
        return [float(one["seconds_update"]) for one in self.metrics]

    @property
    def awake_vcpu(self) -> float:
        """What an awake pod requests."""
        return max(span.vcpu for spans in self.history.spans for span in spans)

    def cells(self) -> list[str]:
        sums, pods = vcpu_seconds(self.history.spans), self.history
        paid, each = sum(sums.values()), self.awake_vcpu
        used = training(self.job)["busySeconds"] * each
        pool = ACTORS * each * self.wall
        start, drain = pods.median("starting"), pods.median("draining")
        gigabytes = pods.gigabyte_seconds / pods.paid
        of_pool = ACTORS * (self.wall + start + drain) * _dollars(each, gigabytes)
        dollars = _dollars(paid, pods.gigabyte_seconds)
        update = sum(self.updates) / len(self.updates)
        return [
            self.name,
            f"{self.row.sampling:g}, {update:.1f}",
            str(len(self.metrics)),
            f"{paid:.1f}: {', '.join(f'{sums[state]:.1f}' for state in STATES)}",
            f"{used:.1f}",
            f"{paid / used:.2f}",
            f"{pool / used:.2f}",
            f"{dollars / of_pool:.2f}",
            f"{self.wall:.0f} / {len(self.metrics) * self.row.sampling + sum(self.updates):.0f}",
            f"{self.first:.0f}",
            f"{start:.0f}, {drain:.0f}",
        ]


def _dollars(vcpu_seconds: float, gigabyte_seconds: float) -> float:
    """By Autopilot's list, without its least size of a pod, which the bench's small pods would not reach."""
    return vcpu_seconds * AUTOPILOT.vcpu_second + gigabyte_seconds * AUTOPILOT.gb_second


def measure(cluster: Cluster, name: str, row: Row) -> Run:
    """Run the job of a row in a namespace of its own."""
    with own_namespace(cluster, NAME) as namespace:
        source = (Path(__file__).parents[1] / "support" / f"{MODULE}.py").read_text()
        metadata = {"name": CODE, "namespace": namespace}
        data = {f"{MODULE}.py": source}
        cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, namespace
        )
        history = PodHistory(cluster, namespace, NAME)
        try:
            created = time.monotonic()
            cluster.create_job(namespace, NAME, row.spec())
            cluster.until_round(namespace, NAME, 1)
            first = time.monotonic() - created
            cluster.until_phase(namespace, NAME, "Succeeded", timeout=1800)
            cluster.until_no_pods(namespace, NAME, "actor")
            job = cluster.until_job(namespace, NAME, counted, what="the last pods are counted")
            (metrics,) = volumes.read(cluster, namespace, f"{NAME}-checkpoint", f"{NAME}-*/metrics.csv")
            return Run(name, row, job, history, list(csv.DictReader(io.StringIO(metrics.decode()))), first)
        finally:
            history.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS))
    parser.add_argument("--rounds", type=int, help="of each row, in place of its own")
    parser.add_argument("--held", action="store_true", help="beside the same with hold: 120, sleep: never")
    parser.add_argument("--two", action="store_true", help="two such jobs at once, beside one alone")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pods of each run into it")
    arguments = parser.parse_args()

    def told(name: str, row: Row) -> Run:
        run = measure(cluster, name, row)
        print(f"| {' | '.join(run.cells())} |", flush=True)
        if arguments.pictures:
            lives, out = run.history.spans, arguments.pictures / f"{name}.png"
            draw_lives(lives, run.history.needs, name, out, end=max(one[-1].ended for one in lives))
        return run

    cluster = Cluster(os.environ.get("RELEASE", "nitro"), os.environ.get("NAMESPACE", "nitro-system"))
    print(f"load {os.getloadavg()[0]:.0f}\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for name in arguments.rows:
        changes: dict[str, Any] = {"rounds": arguments.rounds} if arguments.rounds else {}
        row = replace(ROWS[name], **changes)
        run = told(name, row)
        if arguments.held:
            held = told(f"{name}-held", replace(row, hold=120, sleep="never"))
            ratios = f"wall {run.wall / held.wall:.3f}, end of round 1 {run.first / held.first:.3f}"
            print(f"\n{name}: {ratios} of the held run's\n", flush=True)
        if arguments.two:
            with ThreadPoolExecutor() as both:
                two = list(both.map(lambda which, row=row: measure(cluster, which, row), ("left", "right")))
            longest = max(one.wall for one in two) / run.wall
            print(f"\n{name}: two jobs at once take {longest:.2f} times as long as one alone\n", flush=True)
    print(f"\nload at the end {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
