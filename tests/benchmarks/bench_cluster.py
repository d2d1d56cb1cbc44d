"""The same rounds on a cluster and on this machine: what the cluster costs a round, stage by stage.

    python tests/benchmarks/bench_cluster.py [--actors 16] [--rounds 20]

It uses the cluster of KUBECONFIG, where the release must be installed (`make e2e` does that). The scaler is
`fixed`, so after the first round all actors are warm: the first round shows the cold start, the median of the
others the rest. `overhead` is what nine tenths of the requests took at most beyond the actor's own time. Both
sides sample the same, so the difference is the cluster's.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

import volumes
import yaml
from harness import PATIENCE_SECONDS, Cluster, Object, job_of
from jobs import hopper
from own_namespace import own_namespace

STAGES = ("dispatch", "sample", "update", "detect", "evaluate", "checkpoint", "total", "overhead", "actor")
Rounds = list[dict[str, str]]


def on_cluster(spec: Object) -> Rounds:
    """Run the job in a namespace of its own, and read its metrics.csv."""
    cluster = Cluster(os.environ.get("RELEASE", "nitro"), os.environ.get("NAMESPACE", "nitro-system"))
    with own_namespace(cluster, "bench") as namespace:
        cluster.create_job(namespace, "bench", spec)
        cluster.until_phase(namespace, "bench", "Succeeded")
        (metrics,) = volumes.read(cluster, namespace, "bench-checkpoint", "bench-*/metrics.csv")
        return read(metrics.decode())


def on_this_machine(spec: Object) -> Rounds:
    """Run the job by `nitro train`."""
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder) / "job.yaml", Path(folder) / "run"
        file.write_text(yaml.safe_dump(job_of("bench", spec)))
        nitro = Path(sys.executable).with_name("nitro")
        command = [nitro, "train", str(file), "--run-dir", str(run), "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_SECONDS)
        return read((run / "metrics.csv").read_text())


def read(text: str) -> Rounds:
    return list(csv.DictReader(io.StringIO(text)))


def median(rounds: Rounds, stage: str) -> float:
    return statistics.median(float(row[f"seconds_{stage}"] or 0) for row in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    spec = hopper(rounds=arguments.rounds, actors=(arguments.actors,) * 3, scaling={"scaler": "fixed"})
    local, cluster = on_this_machine(spec), on_cluster(spec)
    print(f"Hopper, {arguments.actors} actors, 256 steps each, {arguments.rounds} rounds; seconds of a round")
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n")
    print(f"{'stage':<12}{'local':>10}{'cluster':>10}{'first, cold':>14}")
    for stage in STAGES:
        cold = float(cluster[0][f"seconds_{stage}"] or 0)
        print(f"{stage:<12}{median(local[1:], stage):>10.3f}{median(cluster[1:], stage):>10.3f}{cold:>14.3f}")
    print(f"\ncold starts: {[int(row['cold_starts']) for row in cluster]}")


if __name__ == "__main__":
    main()
