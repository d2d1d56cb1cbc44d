"""`nitro learn` against a real API server: its job from there, its reports there, stop and go on, an API
outage.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from forked import Forked
from nitro_learner.checkpoints.store import load, pack
from train_support import SUPPORT, job, nitro, recorded, start, write_job


def _apply(apiserver: ApiServer, namespace: str, name: str = "small", **spec: Any) -> dict[str, Any]:
    wanted = {**job(**spec), "metadata": {"name": name, "namespace": namespace}}
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(wanted))
    stored: dict[str, Any] = apiserver.get("ntj", name, "-n", namespace)
    return stored


def _learn(
    apiserver: ApiServer, stored: dict[str, Any], run: Path, record: Path | None = None, **variables: str
) -> Forked:
    return start(
        "learn",
        record=record,
        variables={
            "KUBECONFIG": str(apiserver.kubeconfig),
            "NITRO_JOB_NAMESPACE": stored["metadata"]["namespace"],
            "NITRO_JOB_NAME": stored["metadata"]["name"],
            "NITRO_RUN": stored["metadata"]["uid"],
            "NITRO_RUN_DIR": str(run),
            **variables,
        },
    )


def _stop_at(apiserver: ApiServer, namespace: str, rounds: int) -> None:
    patch = json.dumps({"spec": {"stop": {"rounds": rounds}}})
    apiserver.kubectl("patch", "ntj", "small", "-n", namespace, "--type=merge", "-p", patch)


def _wait(
    apiserver: ApiServer,
    namespace: str,
    process: Forked,
    holds: Callable[[dict[str, Any]], bool],
    seconds: float = 280,
) -> dict[str, Any]:
    """The job's status as soon as it is as wanted."""
    end = time.monotonic() + seconds
    while True:
        status: dict[str, Any] = apiserver.get("ntj", "small", "-n", namespace).get("status") or {}
        if holds(status):
            return status
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, status
        time.sleep(0.1)


def test_a_job_is_learned_and_reported(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    stored = _apply(apiserver, namespace)
    process = _learn(apiserver, stored, tmp_path / "run", tmp_path / "record.jsonl")
    early = _wait(
        apiserver, namespace, process, lambda status: "requestedActors" in status.get("training", {})
    )
    assert early["training"]["requestedActors"] == 3
    _, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    after = apiserver.get("ntj", "small", "-n", namespace, "--show-managed-fields")
    training, cost = after["status"]["training"], after["status"]["cost"]
    assert after["status"]["progress"] == {"percent": 100, "by": "rounds", "etaSeconds": 0}
    assert training["state"] == "Succeeded"
    assert training["reason"] == "RoundsDone"
    assert training["round"] == 6
    assert training["weightsVersion"] == 6
    assert training["envSteps"] > 0
    assert (training["rolloutLength"], training["envsPerActor"], training["cutShare"]) == (64, 4, 0)
    assert [entry["round"] for entry in training["history"] if "evaluationMean" in entry] == [3, 5]
    assert [entry["round"] for entry in training["history"]] == [1, 2, 3, 4, 5, 6]
    steps = [entry["envSteps"] for entry in training["history"]]
    assert steps == sorted(set(steps))
    assert steps[-1] == training["envSteps"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    spent = {name: summary["cost"][name] for name in ("learner", "actors", "total")}
    assert cost == pytest.approx(spent, abs=1e-6), "with the evaluation at the end"
    managers = {entry["manager"]: entry for entry in after["metadata"]["managedFields"]}
    assert managers["nitro-learner"]["operation"] == "Apply"
    assert managers["nitro-learner"]["subresource"] == "status"
    assert set(managers["nitro-learner"]["fieldsV1"]["f:status"]) == {
        "f:training",
        "f:progress",
        "f:cost",
        "f:checkpoint",
    }
    logs = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert any(entry["message"] == "round done" for entry in logs)
    # The same job on a laptop: the same fragments and weights.
    local = tmp_path / "local.jsonl"
    assert nitro("train", write_job(tmp_path), "--run-dir", tmp_path / "local", record=local).returncode == 0
    assert recorded(local) == recorded(tmp_path / "record.jsonl")


def test_actors_in_the_learners_pod_do_not_see_its_secrets(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "curious.py").write_text(
        "import os\ndef make():\n    raise RuntimeError('I can read ' + ' '.join(sorted(os.environ)))\n"
    )
    stored = _apply(apiserver, namespace, environment={"entryPoint": "curious:make", "rolloutLength": 64})
    secrets = {"NITRO_S3_AWS_SECRET_ACCESS_KEY": "x", "AWS_SECRET_ACCESS_KEY": "y", "TEAM_PASSWORD": "z"}
    path = os.pathsep.join((str(tmp_path), str(SUPPORT)))
    process = _learn(apiserver, stored, tmp_path / "run", PYTHONPATH=path, **secrets)
    out, err = process.communicate(timeout=280)
    assert "I can read" in out + err
    assert "PYTHONPATH" in out + err, "what the image sets for its programs is there"
    for name in secrets:
        assert name not in out + err


def test_another_pod_after_the_end_reports_it_and_neither_evaluates_nor_charges(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    """The first pod is lost between the run's end and the report of it."""
    stored = _apply(apiserver, namespace, stop={"rounds": 2})
    run = tmp_path / "run"
    _, err = (first := _learn(apiserver, stored, run)).communicate(timeout=280)
    assert first.returncode == 0, err
    reported = apiserver.get("ntj", "small", "-n", namespace)["status"]
    files = {name: (run / name).read_bytes() for name in ("ledger.jsonl", "summary.json", "metrics.csv")}
    lost = json.dumps({"status": {"training": {"state": "Running", "reason": None}, "cost": None}})
    patch = ("patch", "ntj", "small", "-n", namespace, "--subresource=status", "--type=merge", "-p", lost)
    apiserver.kubectl(*patch)
    _, err = (again := _learn(apiserver, stored, run)).communicate(timeout=280)
    assert again.returncode == 0, err
    status = apiserver.get("ntj", "small", "-n", namespace)["status"]
    for side in (status, reported):
        side["training"].pop("updatedAt")
    assert status == reported
    assert {name: (run / name).read_bytes() for name in files} == files
    # The user asks for more: it goes on.
    _stop_at(apiserver, namespace, 3)
    _, err = (more := _learn(apiserver, stored, run)).communicate(timeout=280)
    assert more.returncode == 0, err
    assert apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]["round"] == 3


def test_sigterm_checkpoints_and_the_next_pod_goes_on_also_when_the_job_was_mended(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, stop={"rounds": 5000})
    process = _learn(apiserver, stored, tmp_path / "run")
    _wait(apiserver, namespace, process, lambda status: status.get("training", {}).get("round", 0) >= 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=280)
    assert process.returncode == 75, err
    status = apiserver.get("ntj", "small", "-n", namespace)["status"]
    done = status["training"]["round"]
    assert status["training"]["state"] == "Running"
    assert status["training"]["reason"] == "Interrupted"
    for spec in (
        {"suspend": True, "stop": {"rounds": done + 2}},
        {"suspend": False, "actor": {"resources": {"limits": {"memory": "3Gi"}}}, "learner": {"image": "b"}},
    ):
        patch = json.dumps({"spec": spec})
        apiserver.kubectl("patch", "ntj", "small", "-n", namespace, "--type=merge", "-p", patch)
    again = _learn(apiserver, stored, tmp_path / "run")
    _, err = again.communicate(timeout=280)
    assert again.returncode == 0, err
    training = apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]
    assert training["round"] == done + 2
    assert training["state"] == "Succeeded"
    assert [entry["round"] for entry in training["history"]][-3:] == [done, done + 1, done + 2]


def test_a_changed_stop_holds_for_the_run_under_way(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, stop={"rounds": 5000})
    process = _learn(apiserver, stored, tmp_path / "run")
    status = _wait(
        apiserver, namespace, process, lambda status: status.get("training", {}).get("round", 0) >= 2
    )
    _stop_at(apiserver, namespace, status["training"]["round"])
    _, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    training = apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]
    assert training["state"] == "Succeeded"
    assert training["reason"] == "RoundsDone"
    assert training["round"] < 5000


def test_the_heartbeat_beats_while_actors_are_awaited(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, backend={"type": "Knative"})
    process = _learn(
        apiserver,
        stored,
        tmp_path / "run",
        NITRO_ACTOR_URL="http://127.0.0.1:9",
        NITRO_REDIS_URL="redis://127.0.0.1:9/0",
        NITRO_TOKEN="secret",
    )
    try:
        first = _wait(apiserver, namespace, process, lambda status: "training" in status)["training"][
            "updatedAt"
        ]
        _wait(apiserver, namespace, process, lambda status: status["training"]["updatedAt"] != first)
        process.send_signal(signal.SIGUSR1)
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=280)
    assert process.returncode == 75, err
    assert 'cluster/status_reporter.py", line' in err, "SIGUSR1 tells where each thread stands"


def test_a_learner_that_is_asked_often_where_it_stands_trains_on(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, stop={"rounds": 5000})
    process = _learn(apiserver, stored, tmp_path / "run")
    log: list[str] = []
    reading = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reading.start()
    try:
        _wait(apiserver, namespace, process, lambda status: status.get("training", {}).get("round", 0) > 0)
        end = time.monotonic() + 5
        while time.monotonic() < end and process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.005)  # the pace of the signals, between which the threads move on
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=280)
        reading.join()
    assert code == 75, log[-50:]
    assert sum("most recent call first" in line for line in log) > 100


def test_a_job_starts_with_the_policies_of_another_one_and_then_goes_on_by_itself(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    def learn(name: str, source: Path, code: int, **options: Any) -> dict[str, Any]:
        spec = {"stop": {"rounds": 2}, "resumeFrom": {"job": "small"}, **options.pop("spec", {})}
        stored = _apply(apiserver, namespace, name, **spec)
        process = _learn(apiserver, stored, tmp_path / name, NITRO_RESUME_FROM=str(source), **options)
        _, err = process.communicate(timeout=280)
        assert process.returncode == code, err
        status: dict[str, Any] = apiserver.get("ntj", name, "-n", namespace)["status"]
        return status

    source = tmp_path / "source"
    process = _learn(apiserver, _apply(apiserver, namespace, stop={"rounds": 2}), source)
    _, err = process.communicate(timeout=280)
    assert process.returncode == 0, err

    # Of another seed, and killed in its second round.
    other = {"seed": 8}
    learn("second", source, -signal.SIGKILL, spec=other, NITRO_TEST_KILL="2:update")
    there, here = (
        load(tmp_path / run / "checkpoints" / f"round-{round:06d}.safetensors").state
        for run, round in (("source", 2), ("second", 0))
    )
    learned = ("parameters", "adam", "observations")
    bits = [
        pack(0, {name: state["policies"]["learners"][0]["state"][name] for name in learned})
        for state in (there, here)
    ]
    assert bits[0] == bits[1]
    assert (there["training"]["round"], here["training"]["round"], here["training"]["env_steps"]) == (2, 0, 0)
    # The next pod goes on from the run's own checkpoint: the other run is gone.
    status = learn("second", tmp_path / "gone", 0, spec=other)
    assert (status["training"]["state"], status["training"]["round"]) == ("Succeeded", 2)
    assert [entry["round"] for entry in status["training"]["history"]] == [1, 2]

    status = learn("narrow", source, 2, spec={"network": {"hiddenSizes": [8]}})
    assert status["training"]["state"] == "Failed"
    assert "spec.network.hiddenSizes is [16, 16] there and [8] here" in status["training"]["message"]


def test_a_wrong_job_is_refused_for_good(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    stored = _apply(
        apiserver,
        namespace,
        environment={"id": "NoSuchEnvironment-v0", "rolloutLength": 64, "envsPerActor": 4},
    )
    process = _learn(apiserver, stored, tmp_path / "run")
    _, err = process.communicate(timeout=280)
    assert process.returncode == 1, err
    training = apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]
    assert training["state"] == "Failed"
    assert "NoSuchEnvironment" in training["message"]


def test_a_gpu_that_is_not_there_is_refused_for_good(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, learner={"device": "cuda"})
    process = _learn(apiserver, stored, tmp_path / "run", CUDA_VISIBLE_DEVICES="")
    _, err = process.communicate(timeout=280)
    assert process.returncode == 2, err
    training = apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]
    assert (training["state"], training["reason"]) == ("Failed", "InvalidJob")
    assert "sees 0 GPUs" in training["message"]
    assert "set the device to cpu" in training["message"]


def test_training_goes_on_while_the_api_server_is_away(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    stored = _apply(apiserver, namespace, stop={"rounds": 5000})
    run = tmp_path / "run"
    process = _learn(apiserver, stored, run)
    _wait(apiserver, namespace, process, lambda status: status.get("training", {}).get("round", 0) >= 1)
    servers = [child.pid for child in apiserver._processes]
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        before = (run / "metrics.csv").read_text().count("\n")
        end = time.monotonic() + 280
        while (run / "metrics.csv").read_text().count("\n") < before + 5:
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
    done = (run / "metrics.csv").read_text().count("\n") - 1
    _wait(apiserver, namespace, process, lambda status: status["training"]["round"] >= done)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=280)
    assert process.returncode == 75
