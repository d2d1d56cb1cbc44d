"""Jobs sent to a real API server from the shell and from Python. The learner's own reporter reports on them,
and the tests write what an operator would."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import kube_config

import nitro_learner as nitro
from apiserver import ApiServer
from forked import Forked
from nitro_api import JobInvalid, JobStatus, resolve_stored
from nitro_api.loading.yamlfile import UNTYPED
from nitro_learner.cluster import handle
from nitro_learner.cluster import jobs as cluster_jobs
from nitro_learner.cluster.job import JobClient
from nitro_learner.cluster.status_reporter import StatusReporter
from nitro_learner.run.code_package import CodeFolderError, pack
from nitro_learner.training.stop import Forecast
from nitro_operator.kube.kinds import CONFIG_MAP, TRAINING_JOB
from operator_support import eventually
from report_support import report
from train_support import start

SECONDS = 120.0
JOB: dict[str, Any] = {
    "apiVersion": "nitro.dev/v1alpha1",
    "kind": "NitroTrainingJob",
    "metadata": {"name": "line", "labels": {"team": "a"}},
    "spec": {
        "environment": {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 4},
        "stop": {"rounds": 6},
    },
}


class Platform:
    """The API server, and the operator's part of a job's status."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def get(self, name: str = "line") -> Any:
        return self.server.request("GET", TRAINING_JOB.path(self.namespace, name))

    def phase(self, phase: str, **conditions: tuple[str, str, str]) -> None:
        """Write the phase, and conditions as (status, reason, message)."""
        listed = [
            {"type": kind, "status": status, "reason": reason, "message": message}
            for kind, (status, reason, message) in conditions.items()
        ]
        path = TRAINING_JOB.path(self.namespace, "line", "status")
        self.server.request("PATCH", path, {"status": {"phase": phase, "conditions": listed}})

    def learner(self) -> StatusReporter:
        """The learner of the job, as far as it reports."""
        stored = self.get()
        client = JobClient(self.namespace, "line", stored["metadata"]["uid"])
        return StatusReporter(client, stored.get("status"))

    def nitro(self, *words: str | Path) -> Forked:
        return start(*words, variables={"KUBECONFIG": str(self.server.kubeconfig)})


@pytest.fixture
def platform(apiserver: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Platform:
    # The client reads KUBECONFIG when it is imported.
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(apiserver.kubeconfig))
    monkeypatch.setattr(cluster_jobs, "LOOK_SECONDS", 0.05)
    return Platform(apiserver, namespace)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "line.yaml"
    path.write_text(yaml.safe_dump(JOB))
    return path


def train(platform: Platform, *rounds: int) -> None:
    """Report rounds as a learner does."""
    with platform.learner() as learner:
        learner.starting(resolve_stored(platform.get()).spec, round=0, version=0, actors=8)
        for number in rounds:
            ahead = Forecast("rounds", number / 6, 10.0 * (6 - number))
            learner.on_round_done(report(number, forecast=ahead))


def end(platform: Platform) -> None:
    with platform.learner() as learner:
        learner.conclude("Succeeded", "RoundsDone", "all 6 rounds are done")
    platform.phase("Succeeded", Complete=("True", "RoundsDone", ""))


def test_a_job_is_submitted_and_followed_to_its_end(platform: Platform, job_file: Path) -> None:
    command = platform.nitro("submit", job_file, "--set", "spec.seed=3", "-n", platform.namespace, "--follow")
    stored = eventually(platform.get)
    assert stored["metadata"]["labels"] == {"team": "a"}
    given = {"seed": 3, "stop": {"rounds": 6}}
    assert {name: stored["spec"][name] for name in given} == given
    platform.phase("Pending", Ready=("False", "PlatformFull", "the platform's limit is used up"))
    assert command.stdout.readline() == f"job line is in namespace {platform.namespace}\n"
    waiting = "Pending: the platform's limit is used up\n"
    assert waiting in itertools.islice(command.stdout, 2)  # it may have been there before the operator
    platform.phase("Running", Ready=("True", "Training", ""))
    train(platform, 1, 2, 3)
    end(platform)
    out, err = command.communicate(SECONDS)
    assert command.returncode == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert [
        "round",
        "env",
        "steps",
        "reward",
        "eval",
        "score",
        "actors",
        "cost",
        "$",
        "s/round",
        "ETA",
    ] in lines
    third = ["3/6", "12,288", "60.0", "75.0", "0.500", "8→12", "0.0045", "1.25", "0:30"]
    assert [line[0] for line in lines if line[0].endswith("/6")] == ["1/6", "2/6", "3/6"]
    assert (
        third in lines or [*third[:5], "8→12", *third[6:8], "0:00"] in lines
    )  # seen before the end, or after
    assert "done: all 6 rounds are done" in out
    assert "cost $0.0045 (learner $0.0030, actors $0.0015)" in out


def test_ctrl_c_detaches_and_says_how_to_attach_again(platform: Platform, job_file: Path) -> None:
    command = platform.nitro("submit", job_file, "--namespace", platform.namespace, "--follow")
    assert "no operator has looked at it yet" in "".join(itertools.islice(command.stdout, 2))
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(SECONDS)
    assert command.returncode == 75
    assert f"To follow it again: nitro follow line --namespace {platform.namespace}\n" in err
    assert platform.get()["spec"]["seed"] == 0

    train(platform, 1)
    platform.phase("Failed", Failed=("True", "OutOfMemory", "too little memory; raise spec.learner.memory"))
    again = platform.nitro("follow", "line", "--namespace", platform.namespace)
    out, err = again.communicate(SECONDS)
    assert again.returncode == 1
    assert "1/6" in out
    assert "job line failed (OutOfMemory): too little memory; raise spec.learner.memory\nmore: kubectl" in err


def test_a_job_from_python_is_waited_for_suspended_resumed_and_removed(platform: Platform) -> None:
    sent = nitro.submit(JOB, namespace=platform.namespace)
    assert repr(sent) == f"ClusterJob('line', namespace='{platform.namespace}')"
    assert [job.name for job in nitro.jobs(namespace=platform.namespace)] == ["line"]
    assert sent.status.phase is None
    with pytest.raises(TimeoutError, match="job line is Pending after"):
        sent.wait(timeout=0)
    sent.suspend()
    assert platform.get()["spec"]["suspend"] is True
    sent.resume()
    assert platform.get()["spec"]["suspend"] is False
    platform.phase("Running")
    train(platform, 1, 2, 3)
    rounds = sent.rounds()
    assert [(entry.round, entry.reward_mean) for entry in itertools.islice(rounds, 3)] == [
        (1, 20.0),
        (2, 40.0),
        (3, 60.0),
    ]
    progress = sent.status.progress
    assert progress is not None
    assert progress.to_dict() == {"percent": 50.0, "by": "rounds", "etaSeconds": 30}
    assert sent.job.spec.stop.rounds == 6
    end(platform)
    assert list(rounds) == []
    training = sent.wait().training
    assert training is not None
    assert training.reason == "RoundsDone"
    sent.delete()
    assert platform.get() is None
    with pytest.raises(nitro.ClusterError, match=r"job line of namespace .* was deleted"):
        sent.wait()
    nitro.submit(JOB, namespace=platform.namespace)
    with pytest.raises(nitro.ClusterError, match="was deleted"):
        sent.suspend()
    assert platform.get()["spec"]["suspend"] is False


def test_a_job_that_fails_raises_with_reason_and_remedy(platform: Platform) -> None:
    sent = nitro.submit(JOB, namespace=platform.namespace)
    platform.phase("Failed", Failed=("True", "OutOfMemory", "too little memory; raise it"))
    for ended in (sent.wait, lambda: list(sent.rounds())):
        with pytest.raises(nitro.JobFailed, match="too little memory; raise it") as failed:
            ended()
        assert failed.value.reason == "OutOfMemory"


def test_floats_of_the_environment_stay_floats_on_the_cluster(platform: Platform) -> None:
    environment = {"id": "Pendulum-v1", "kwargs": {"g": 10.0}}
    sent = nitro.submit({**JOB, "spec": {"environment": environment}}, namespace=platform.namespace)
    assert platform.get()["spec"]["environment"]["kwargs"] == {"g": {"$float": 10}}
    assert repr(sent.job.spec.environment.kwargs["g"]) == "10.0"
    spec = {section: {name: {"x": 1.0, "y": 0.5}} for _, section, name in UNTYPED}
    cluster_jobs.mark_floats(spec)
    assert spec == {section: {name: {"x": {"$float": 1.0}, "y": 0.5}} for _, section, name in UNTYPED}


def test_a_folder_of_code_goes_to_the_cluster_with_the_job(platform: Platform, tmp_path: Path) -> None:
    (tmp_path / "line_parts.py").write_text("LENGTH = 4\n")
    package = pack(tmp_path)
    nitro.submit(JOB, code=tmp_path, namespace=platform.namespace)
    assert platform.get()["spec"]["code"] == package.digest
    (brought,) = (
        entry
        for entry in platform.server.request("GET", CONFIG_MAP.path(platform.namespace))["items"]
        if entry["metadata"]["name"].startswith("nitro-code-")
    )
    assert brought["binaryData"] == package.config_map()["binaryData"]
    assert brought["immutable"] is True
    nitro.submit({**JOB, "metadata": {"name": "other"}}, code=tmp_path, namespace=platform.namespace)
    assert platform.get("other")["spec"]["code"] == package.digest, "the ConfigMap was there already"
    stranger = platform.server.kubeconfig_of("stranger", platform.namespace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(stranger))
        with pytest.raises(nitro.ClusterError, match="you may not make ConfigMaps in namespace"):
            nitro.submit(JOB, code=tmp_path, namespace=platform.namespace)
    with pytest.raises(CodeFolderError, match="is no folder"):
        nitro.submit(JOB, code=tmp_path / "none", namespace=platform.namespace)


WRONG: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
    ({"seed": -1}, {}, JobInvalid, "spec.seed"),
    ({}, {"context": "none"}, nitro.ClusterError, "the kubeconfig has no context none; it has: "),
    ({}, {"namespace": "no-such-place"}, nitro.ClusterError, "kubectl create namespace no-such-place"),
]


@pytest.mark.parametrize(("spec", "where", "error", "words"), WRONG)
def test_what_is_wrong_is_said_with_the_remedy_and_nothing_is_sent(
    platform: Platform, spec: Any, where: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        nitro.submit({**JOB, "spec": {**JOB["spec"], **spec}}, **{"namespace": platform.namespace, **where})
    assert platform.get() is None


def test_a_name_that_exists_missing_rights_and_an_older_cluster_have_an_answer_each(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = platform.namespace
    nitro.submit(JOB, namespace=there)
    with pytest.raises(nitro.ClusterError, match=rf"a job line already \(Pending\)\. .* --namespace {there}"):
        nitro.submit(JOB, namespace=there)
    other = {**JOB, "metadata": {"name": "other", "namespace": "b"}}
    with pytest.raises(JobInvalid, match="is not the namespace test-"):
        nitro.submit(other, namespace=there)
    third = {**JOB, "metadata": {"name": "other"}}
    known = handle.object_of
    with monkeypatch.context() as patch:
        patch.setattr(handle, "object_of", lambda job: {**known(job), "spec": {**JOB["spec"], "later": 1}})
        with pytest.raises(nitro.ClusterError, match=r"is older .*spec\.later"):
            nitro.submit(third, namespace=there)
    stranger = platform.server.kubeconfig_of("stranger", there)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(stranger))
    with pytest.raises(nitro.ClusterError, match=f"you may not make jobs in namespace {there}"):
        nitro.submit(third, namespace=there)
    assert platform.get("other") is None


def test_rounds_that_a_new_learner_does_again_come_again() -> None:
    seen = handle.SeenRounds()

    def look(*rounds: int) -> list[int]:
        history = [{"round": number} for number in rounds]
        training = {"round": max(rounds), "history": history}
        return [entry.round for entry in seen.take(JobStatus.model_validate({"training": training}))]

    assert seen.take(JobStatus()) == []
    assert look(1, 2, 3) == [1, 2, 3]
    assert look(1, 2, 3, 4) == [4]
    assert look(1, 2) == []
    assert look(1, 2, 3) == [3]
