"""An experiment whose runs are jobs: interrupted, killed, and equal to this machine's to the bit."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import volumes
import yaml
from harness import PATIENCE_SECONDS, Cluster, Object, phase_of, round_of
from jobs import TINY_ACTOR, TINY_LEARNER
from namespaces import Start
from run_outcome import Outcome, untuned

from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.on_cluster.manifests import LABEL, object_name
from nitro_experiments.running.on_cluster.run_files import RunFiles
from nitro_learner.cluster.jobs import ClusterError, NamespaceJobs
from nitro_learner.run import folders
from nitro_learner.run.rundir import RunDir

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
            "scaling": {"scaler": "nitro", "minActors": 1, "initialActors": 2, "maxActors": 4},
            "actor": {"resources": TINY_ACTOR},
            "learner": {"resources": TINY_LEARNER},
        },
    },
    "variants": {"nitro": {}, "fixed": {"spec.scaling.scaler": "fixed"}},
    "permuted": {"shuffled": "nitro"},
    "seeds": [0],
    "budget": {"rounds": ROUNDS},
}


@pytest.mark.full
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
    left = {uid: round_of(job) for uid, job in jobs().items()}  # a job's rounds take half a minute in all
    killed.kill()
    killed.communicate(timeout=PATIENCE_SECONDS)
    assert suspended.keys() <= left.keys()
    cluster.until(
        cluster.jobs,
        lambda found: any(round_of(job) > left.get(job["metadata"]["uid"], ROUNDS) for job in found),
        namespace=namespace,
        what="a job goes on by itself",
    )

    for process in (begin("local"), begin("results", *on_cluster)):
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == os.EX_OK, told

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


def test_files_of_two_jobs_are_copied_at_once_and_a_copy_that_breaks_off_is_none(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    spec = copy.deepcopy(EXPERIMENT["job"]["spec"]) | {
        "stop": {"rounds": 1},
        "backend": {"type": "Local", "local": {"processes": 1}},
    }
    names = ("one", "two")
    for name in names:
        start(name, spec)
    done = {name: cluster.until_phase(namespace, name, "Succeeded") for name in names}
    closing = threading.Event()
    files = RunFiles(NamespaceJobs(namespace), closing)
    accepted: list[Path] = []

    def fetch(name: str) -> None:
        files.copy(done[name], RunDir(tmp_path / name), lambda found: accepted.append(found.path))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fetch, names))
    assert len(accepted) == 2
    for name in names:
        (metrics,) = volumes.read(cluster, namespace, f"{name}-checkpoint", f"{name}-*/metrics.csv")
        assert (tmp_path / name / "metrics.csv").read_bytes() == metrics
        assert RunDir(tmp_path / name).read_summary()["finished"]

    closing.set()
    before = (tmp_path / "one" / "metrics.csv").stat().st_ino
    with pytest.raises(ClusterError, match="one-files-"):
        fetch("one")
    assert len(accepted) == 2
    assert (tmp_path / "one" / "metrics.csv").stat().st_ino == before, "the copy from before stays"
    readers = "app.kubernetes.io/managed-by=nitro-experiment"
    cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: not pods,
        namespace=namespace,
        what="no reader is left",
        selector=readers,
    )
