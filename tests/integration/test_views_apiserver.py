"""`nitro top`, `nitro report` and `kubectl nitro` against a real API server and the real kubectl."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer

BIN = Path(sys.executable).parent
WITHOUT_TRAINING = """
import sys
for name in ("nitro_actor", "redis", "safetensors", "tensorboard", "torch"):
    sys.modules[name] = None  # as if it were not installed
from nitro_learner.cli import kubectl, main
sys.exit(kubectl() if sys.argv[0] == "kubectl" else main())
"""


@pytest.fixture
def jobs(apiserver: ApiServer, namespace: str) -> str:
    """A namespace with a job that runs and one that nobody has looked at."""
    for name in ("one", "two"):
        job = {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"environment": {"id": "Hopper-v5"}},
        }
        apiserver.kubectl("apply", "-f", "-", input=json.dumps(job))
    history = [{"round": 3, "rewardMean": 12.5, "actors": 8, "score": 0.5, "cost": 0.25}]
    status = {
        "phase": "Running",
        "training": {"round": 3, "envSteps": 4096, "rewardMean": 12.5, "history": history},
        "actors": {"granted": 8, "ready": 8},
        "cost": {"total": 0.25},
    }
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    apiserver.kubectl("patch", "ntj", "one", "-n", namespace, *patch)
    return namespace


def environment(apiserver: ApiServer, **more: str) -> dict[str, str]:
    path = f"{BIN}:{apiserver.assets}:{os.environ['PATH']}"
    return {**os.environ, "KUBECONFIG": str(apiserver.kubeconfig), "PATH": path, **more}


def run(apiserver: ApiServer, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, env=environment(apiserver), cwd=cwd
    )


def test_kubectl_finds_the_plugin_and_it_shows_the_jobs(apiserver: ApiServer, jobs: str) -> None:
    done = run(apiserver, "kubectl", "nitro", "top", "--namespace", jobs)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1][:4] == [jobs, "one", "Running", "3"]
    assert lines[2][:3] == [jobs, "two", "Pending"]


def test_top_prints_json_for_programs(apiserver: ApiServer, jobs: str) -> None:
    done = run(apiserver, "nitro", "top", "-n", jobs, "--json")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert [(row["job"], row["round"], row["cost"]) for row in rows] == [
        ("one", 3, 0.25),
        ("two", None, None),
    ]


def test_a_terminal_of_sixty_columns_is_kept_up_to_date_until_ctrl_c(apiserver: ApiServer, jobs: str) -> None:
    terminal, child = pty.openpty()
    env = environment(apiserver, COLUMNS="60", LINES="20", TERM="xterm-256color")
    command = ["nitro", "top", "-n", jobs, "--interval", "0.5"]
    # A shell starts what runs in its background with SIGINT ignored, and a test run may be just that.
    process = subprocess.Popen(
        command,
        stdin=child,
        stdout=child,
        stderr=child,
        env=env,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(child)
    try:
        assert "Running" in _read(terminal, "Running")
        patch = ("--subresource=status", "--type=merge", "-p", '{"status":{"training":{"round":77}}}')
        apiserver.kubectl("patch", "ntj", "one", "-n", jobs, *patch)
        assert "77" in _read(terminal, "77")
        process.send_signal(signal.SIGINT)
        assert process.wait(280) == 0
    finally:
        process.kill()
        os.close(terminal)


def test_the_report_of_a_job_needs_nothing_that_trains(
    apiserver: ApiServer, jobs: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_TRAINING, "report", "one", "-n", jobs]
    done = run(apiserver, *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "report.html").read_text()
    assert "Hopper-v5" in html
    assert "$0.2500" in html


@pytest.mark.parametrize("command", [("nitro", "report", "one", "-n"), ("kubectl", "nitro", "report", "one")])
def test_a_folder_of_the_jobs_name_does_not_hide_the_job(
    apiserver: ApiServer, jobs: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "one").mkdir()
    if command[-1] == "-n":
        done = run(apiserver, *command, jobs, cwd=tmp_path)
    else:  # as `kubectl config set-context --current --namespace` sets it
        config = tmp_path / "kubeconfig"
        config.write_text(apiserver.kubeconfig.read_text())
        env = environment(apiserver, KUBECONFIG=str(config))
        subprocess.run(
            ["kubectl", "config", "set-context", "--current", f"--namespace={jobs}"], env=env, check=True
        )
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=280, env=env, cwd=tmp_path, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "Hopper-v5" in (tmp_path / "report.html").read_text()
    assert list((tmp_path / "one").iterdir()) == []


def test_pods_of_a_job_are_drawn_until_ctrl_c(apiserver: ApiServer, jobs: str, tmp_path: Path) -> None:
    """No kubelet runs here, so the test writes what one would."""
    labels = {"nitro.dev/job": "one", "app.kubernetes.io/component": "actor"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "actor", "namespace": jobs, "labels": labels},
        "spec": {"containers": [{"name": "actor", "image": "none", "resources": {"requests": {"cpu": "1"}}}]},
    }
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(pod))
    when = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": kind, **when} for kind in ("PodScheduled", "Ready")]
    patch = ("--subresource=status", "-p", json.dumps({"status": {"conditions": conditions}}))
    apiserver.kubectl("patch", "pod", "actor", "-n", jobs, *patch)
    process = subprocess.Popen(
        ["nitro", "plot", "--pods", "one", "-n", jobs, "--out", "drawn.png"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(apiserver),
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stderr is not None
        assert "Ctrl-C draws" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(280) == 0, process.stderr.read()
    finally:
        process.kill()
    assert (tmp_path / "drawn.png").read_bytes()[:4] == b"\x89PNG"

    ended = json.dumps({"status": {"phase": "Succeeded"}})
    apiserver.kubectl("patch", "ntj", "one", "-n", jobs, "--subresource=status", "--type=merge", "-p", ended)
    apiserver.kubectl("delete", "pod", "actor", "-n", jobs, "--now")
    done = run(apiserver, "nitro", "plot", "--pods", "one", "-n", jobs, cwd=tmp_path)
    assert done.returncode == 2
    assert "has no actor pods any more" in done.stderr


def test_training_without_torch_names_the_package_to_install(apiserver: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: nitro.dev/v1alpha1\nkind: NitroTrainingJob\nmetadata: {name: a}\n"
        "spec: {environment: {id: Hopper-v5}}\n"
    )
    done = run(apiserver, sys.executable, "-c", WITHOUT_TRAINING, "train", str(tmp_path / "job.yaml"))
    assert done.returncode == 1
    assert "train trains, which takes more: in a checkout run pip install ./actor-image" in done.stderr
    assert "'./learner-image[train]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("report", "no-such-job"), 2, "kubectl get ntj -A"),
        (("report", "runs/no-such-folder"), 2, "no such run folder"),
        (("report", "runs/one", "-n", "team"), 2, "leave one of them out"),
        (("top", "--interval", "0"), 2, "0.5 to 3600"),
    ],
)
def test_mistakes_are_reported_with_the_remedy(
    apiserver: ApiServer, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run(apiserver, "nitro", *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_no_cluster_is_no_traceback(apiserver: ApiServer, tmp_path: Path) -> None:
    env = environment(apiserver, KUBECONFIG=str(tmp_path / "none"), HOME=str(tmp_path))
    done = subprocess.run(["nitro", "top"], capture_output=True, text=True, timeout=280, env=env)
    assert done.returncode == 1
    assert "Set KUBECONFIG" in done.stderr
    assert "Traceback" not in done.stderr


def _read(terminal: int, word: str, seconds: float = 280) -> str:
    """What the terminal shows until a word turns up."""
    text, end = "", time.monotonic() + seconds
    while word not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            text += os.read(terminal, 65_536).decode(errors="replace")
    return text
