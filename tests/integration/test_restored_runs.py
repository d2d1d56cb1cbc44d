"""Learners of jobs that a backup has brought back: the run of the former uid goes on under the new one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from job_redis import job_redis
from nitro_api import resolve_stored
from nitro_learner.checkpoints.store import load
from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.config import Config
from train_support import exact_rows, job, learned, nitro, start, write_job

Object = dict[str, Any]

FORMER = "small-0f8fad5b-d9cb-469f-a165-70867728950e"
"""The run's folder of a job that is gone."""
SOURCE: Object = {"claim": "small-checkpoint", "folder": FORMER}
SPEC: Object = {"stop": {"rounds": 4}, "evaluation": {"episodes": 1, "everyRounds": 4}}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = nitro("train", write_job(directory, **SPEC), "--run-dir", directory / "run")
    assert done.returncode == 0, done.stderr
    return directory / "run"


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A claim with the run of a job that was lost in its third round."""
    claim = tmp_path_factory.mktemp("claim")
    lost = nitro("train", write_job(claim, **SPEC), "--run-dir", claim / FORMER, kill="3:update")
    assert lost.returncode == -9, lost.stderr
    return claim


@pytest.fixture
def claim(broken_off: Path, tmp_path: Path) -> Path:
    return shutil.copytree(broken_off, tmp_path / "claim")


def restored(apiserver: ApiServer, namespace: str, **spec: Any) -> Object:
    """A job of the same name and settings with a new uid."""
    wanted = {**job(**SPEC | spec), "metadata": {"name": "small", "namespace": namespace}}
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(wanted))
    stored: Object = apiserver.get("ntj", "small", "-n", namespace)
    return stored


def own_folder(claim: Path, stored: Object) -> Path:
    return claim / f"small-{stored['metadata']['uid']}"


def learn(
    apiserver: ApiServer, stored: Object, claim: Path, code: int = 0, **variables: str
) -> tuple[Object, str]:
    """Run the learner to its end. Returns the job's status and what the learner wrote."""
    meta = stored["metadata"]
    process = start(
        "learn",
        variables={
            "KUBECONFIG": str(apiserver.kubeconfig),
            "NITRO_JOB_NAMESPACE": meta["namespace"],
            "NITRO_JOB_NAME": meta["name"],
            "NITRO_RUN": meta["uid"],
            "NITRO_RUN_DIR": str(own_folder(claim, stored)),
            **variables,
        },
    )
    try:
        _, err = process.communicate(timeout=280)
    finally:
        process.kill()
    assert process.returncode == code, err
    status: Object = apiserver.get("ntj", meta["name"], "-n", meta["namespace"])["status"]
    return status, err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_restored_job_takes_the_whole_run_of_a_folder_and_its_rounds_go_on(
    apiserver: ApiServer, namespace: str, claim: Path, undisturbed: Path
) -> None:
    stored = restored(apiserver, namespace, resumeFrom={**SOURCE, "take": "Run"})
    own, before = own_folder(claim, stored), contents(claim / FORMER)
    (own / ".resume-from" / "checkpoints").mkdir(parents=True)
    (own / ".resume-from" / "checkpoints" / "round-000001.safetensors").write_bytes(b"half")
    (own / "tensorboard").mkdir()
    (own / "tensorboard" / "events.of.a.try.before").write_bytes(b"x")
    status, _ = learn(apiserver, stored, claim, NITRO_RESUME_FROM=str(claim / FORMER))
    assert [entry["round"] for entry in status["training"]["history"]] == [1, 2, 3, 4]
    assert (status["training"]["state"], status["checkpoint"]["round"]) == ("Succeeded", 4)
    assert "formerRun" not in status["training"]
    assert learned(own, 4) == learned(undisturbed, 4)
    assert exact_rows(own) == exact_rows(undisturbed)
    assert load(own / "checkpoints" / "round-000004.safetensors").state["run"] == stored["metadata"]["uid"]
    assert contents(claim / FORMER) == before, "the former run stays as it was"
    assert not [path for path in own.iterdir() if path.name.startswith(".resume")]
    # The next pod has no need of the former folder.
    shutil.rmtree(claim / FORMER)
    again, _ = learn(apiserver, stored, claim)
    assert again["training"]["round"] == 4


def test_a_whole_run_is_taken_by_the_same_job_only(apiserver: ApiServer, namespace: str, claim: Path) -> None:
    stored = restored(apiserver, namespace, seed=8, resumeFrom={**SOURCE, "take": "Run"})
    status, _ = learn(apiserver, stored, claim, 2, NITRO_RESUME_FROM=str(claim / FORMER))
    said = status["training"]["message"]
    assert f"spec.resumeFrom (claim: small-checkpoint, folder: {FORMER}) holds a run of another job" in said
    assert "spec.seed: 7 in the folder, 8 now" in said
    assert "Create this job anew with the values that the folder has, each by name" in said
    assert not list(own_folder(claim, stored).glob("[!.]*")), "nothing of it was taken"


def test_a_folder_without_a_run_is_named(apiserver: ApiServer, namespace: str, claim: Path) -> None:
    empty = claim / "small-2"
    empty.mkdir()
    stored = restored(apiserver, namespace, resumeFrom={**SOURCE, "folder": "small-2", "take": "Run"})
    status, _ = learn(apiserver, stored, claim, 2, NITRO_RESUME_FROM=str(empty))
    wanted = (
        "spec.resumeFrom: has no checkpoint (claim: small-checkpoint, folder: small-2); name a run that has"
    )
    assert wanted in status["training"]["message"]


def test_a_restored_job_that_begins_anew_reports_the_former_run(
    apiserver: ApiServer, namespace: str, claim: Path
) -> None:
    for other in ("small-2", "small-2-0f8fad5b-d9cb-469f-a165-70867728950e"):
        shutil.copytree(claim / FORMER, claim / other)
    older = claim / FORMER.replace("0f8fad5b", "1f8fad5b")
    shutil.copytree(claim / FORMER, older)
    for path in older.glob("checkpoints/*"):
        os.utime(path, (1, 1))
    stored = restored(apiserver, namespace, stop={"rounds": 1})
    status, _ = learn(apiserver, stored, claim)
    assert status["training"]["formerRun"] == FORMER
    assert [entry["round"] for entry in status["training"]["history"]] == [1]


@contextlib.contextmanager
def actor(stored: Object, **variables: str) -> Iterator[str]:
    """The address of an actor of the job."""
    environment = json.dumps(resolve_stored(stored).spec.environment.to_actor())
    given = {"NITRO_ENVIRONMENT": environment, "NITRO_HOST": "127.0.0.1", "PORT": "0", **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "nitro_actor.server"], env={**os.environ, **given}, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
    finally:
        process.kill()
        process.wait()


def test_a_moved_folder_goes_on_with_the_keys_and_the_passwords_of_the_new_job(
    apiserver: ApiServer, namespace: str, claim: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """The checkpoint has the identity of the former run in it, whose keys Redis refuses to this one."""
    stored = restored(apiserver, namespace, backend={"type": "Knative"})
    (claim / FORMER).rename(own_folder(claim, stored))
    images = {f"NITRO_{name}_IMAGE": "x" for name in ("ACTOR", "LEARNER", "REDIS")}
    view = JobView.of(stored, resolve_stored(stored).spec, Config.from_environment(images))
    secret = credentials_secret(view)["stringData"]
    with (
        job_redis(secret, tmp_path) as urls,
        actor(stored, NITRO_REDIS_URL=urls["actor"], NITRO_TOKEN=secret["token"]) as address,
    ):
        reach = {
            "NITRO_ACTOR_URL": address,
            "NITRO_REDIS_URL": urls["learner"],
            "NITRO_TOKEN": secret["token"],
        }
        status, _ = learn(apiserver, stored, claim, **reach)
    assert [entry["round"] for entry in status["training"]["history"]] == [1, 2, 3, 4]
    assert learned(own_folder(claim, stored), 4) == learned(undisturbed, 4)
