"""An experiment whose runs are jobs: interrupted, killed, and equal to this machine's to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import volumes
import yaml
from harness import PATIENCE_SECONDS, Cluster, Object, phase_of, round_of
from jobs import TINY_ACTOR, TINY_LEARNER
from run_outcome import Outcome, untuned

from nitro_learner.experiments.folder import ExperimentDir
from nitro_learner.experiments.on_cluster.manifests import LABEL, object_name
from nitro_learner.experiments.plan import plan
from nitro_learner.experiments.spec import load
from nitro_learner.run import folders

INTERRUPTED = 75
ROUNDS = 40
EXPERIMENT: Object = {
    "name": "small",
    "job": {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "cartpole"},
        "spec": {
            "environment": {"id": "CartPole-v1", "rolloutLength": 128, "envsPerActor": 2},
            "evaluation": {"episodes": 1},
            "scaling": {"minActors": 1, "initialActors": 2, "maxActors": 4},
            "actor": {"resources": TINY_ACTOR},
            "learner": {"resources": TINY_LEARNER},
        },
    },
    "variants": {"nitro": {}, "fixed": {"spec.scaling.scaler": "fixed"}},
    "permuted": {"shuffled": "nitro"},
    "seeds": [0],
    "budget": {"rounds": ROUNDS},
}


def test_an_experiment_on_the_cluster_is_that_of_this_machine(
    cluster: Cluster, namespace: str, disks: volumes.Disks, tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    runs = plan(load(file))
    folders.mark(tmp_path / "results")
    identity = ExperimentDir(tmp_path / "results").identity()
    for run in runs:
        disks.provide(namespace, f"{object_name(identity, run)}-checkpoint")

    def begin(folder: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "nitro_learner", "experiment", "run", str(file), *arguments]
        return subprocess.Popen(
            [*command, "--dir", str(tmp_path / folder), "--jobs", "2"],
            stderr=subprocess.PIPE,
            text=True,
            env=untuned(),
            # A shell starts what runs in its background with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def until_one_runs() -> None:
        def check(jobs: list[Object]) -> bool:
            return any(phase_of(job) == "Running" for job in jobs)

        selector = f"{LABEL}=small"
        cluster.until(cluster.jobs, check, namespace=namespace, what="a job runs", selector=selector)

    def jobs() -> dict[str, Object]:
        return {
            job["metadata"]["uid"]: job for job in cluster.jobs.get(namespace=namespace).to_dict()["items"]
        }

    on_cluster = ("--cluster", "--namespace", namespace)
    interrupted = begin("results", *on_cluster)
    until_one_runs()
    interrupted.send_signal(signal.SIGINT)
    _, told = interrupted.communicate(timeout=PATIENCE_SECONDS)
    assert (interrupted.returncode, "The same command goes on." in told) == (INTERRUPTED, True), told
    suspended = jobs()
    assert {phase_of(job) for job in suspended.values()} == {"Suspended"}

    killed = begin("results", *on_cluster)
    until_one_runs()
    killed.kill()
    killed.communicate(timeout=PATIENCE_SECONDS)
    left = {uid: round_of(job) for uid, job in jobs().items()}
    assert suspended.keys() <= left.keys()
    cluster.until(
        cluster.jobs,
        lambda found: any(round_of(job) > left.get(job["metadata"]["uid"], ROUNDS) for job in found),
        namespace=namespace,
        what="a job goes on by itself",
    )

    finished = begin("results", *on_cluster)
    _, told = finished.communicate(timeout=PATIENCE_SECONDS)
    assert finished.returncode == os.EX_OK, told
    local = begin("local")
    _, told = local.communicate(timeout=PATIENCE_SECONDS)
    assert local.returncode == os.EX_OK, told

    for run in runs:
        outcomes = [_outcome(tmp_path / folder / run.folder) for folder in ("results", "local")]
        assert len(outcomes[0].rounds) == ROUNDS
        outcomes[0].assert_equals(outcomes[1])
    report = (tmp_path / "results" / "report.md").read_text()
    assert "3 of 3 runs are finished" in report
    assert "on Kubernetes v" in report
    cluster.until(cluster.jobs, lambda jobs: not jobs, namespace=namespace, what="no job is left")
    claims = cluster.kind("v1", "PersistentVolumeClaim")
    cluster.until(claims, lambda found: not found, namespace=namespace, what="no claim is left")


def _outcome(run: Path) -> Outcome:
    last = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    return Outcome.of((run / "metrics.csv").read_bytes(), last.read_bytes())
