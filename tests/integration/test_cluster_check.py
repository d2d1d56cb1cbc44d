"""The check of a job's environment on a cluster: a real actor makes it, the learner asks for it over HTTP and
reports it to a real API server, and the operator has a condition of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from job_redis import job_redis
from nitro_actor.base_service import has_room
from nitro_actor.check_process import Record
from nitro_api import resolve_stored
from nitro_api.spec.learner_status import TrainingStatus
from nitro_learner.backends.knative import KnativeBackend
from nitro_learner.run.check_listener import ActorCheck
from nitro_learner.run.checking.report import report_of
from nitro_operator.builders import JobView
from nitro_operator.builders.credentials import credentials_secret
from nitro_operator.config import Config
from nitro_operator.status import document
from train_support import SUPPORT, job, start

LONG = 280.0
TOKEN = "secret"


@contextlib.contextmanager
def actor(environment: dict[str, Any], **variables: str) -> Iterator[str]:
    """The address of an actor that is ready."""
    given = {
        "NITRO_ENVIRONMENT": json.dumps(environment),
        "NITRO_HOST": "127.0.0.1",
        "NITRO_REDIS_URL": "redis://127.0.0.1:9/0",
        "NITRO_TOKEN": TOKEN,
        "PORT": "0",
        "PYTHONPATH": str(SUPPORT),
        **variables,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "nitro_actor.server"], env={**os.environ, **given}, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        until(lambda: get(f"{url}/readyz")[0] == 200)
        yield url
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def get(url: str, token: str = TOKEN) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=LONG) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def own(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"id": "x", "entryPoint": f"broken_environments:{name}", "kwargs": kwargs, "envs": 2}


@pytest.mark.parametrize("actors", ["1", "2"])
def test_an_actor_checks_its_environment_once_and_takes_requests_meanwhile(actors: str) -> None:
    with actor(own("ChangesAction"), NITRO_ACTORS=actors) as url:
        assert get(f"{url}/v1/check", token="wrong")[0] == 401
        status, begun = get(f"{url}/v1/check")
        assert (status, begun["record"]) == (200, None)
        assert get(f"{url}/readyz")[0] == 200
        check = f"{url}/v1/check?id={begun['id']}"
        told = until(lambda: get(check)[1]["record"])
        assert get(f"{url}/v1/check") == (200, {"id": begun["id"], "record": told}), "it is made once"
        (fault,) = report_of(Record(**told)).faults
        assert "step changes the action that it is given, in place" in fault
        assert get(f"{url}/v1/check?id=another")[0] == 421


async def test_a_learner_gets_what_an_actor_has_found() -> None:
    with actor(own("Sound")) as url:
        backend = KnativeBackend(url, TOKEN, "redis://nowhere")
        try:
            report = await ActorCheck(backend.check).early_report()
        finally:
            await backend.close()
    assert report.sound
    assert report.environment is not None


def test_an_actor_without_memory_for_one_more_copy_checks_nothing(tmp_path: Path) -> None:
    def container(limit: str, used: int, files: int = 0) -> bool:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {files}\n")
        return has_room(2, tmp_path)

    assert container("max", 900)
    assert container("1000", 600)
    assert not container("1000", 700)
    assert container("1000", 700, files=100)
    assert has_room(1, tmp_path / "nothing")


def learned(
    apiserver: ApiServer, namespace: str, folder: Path, name: str, annotations: dict[str, str]
) -> dict[str, Any]:
    """The status of a job on Knative that was learned with an actor of this environment."""
    environment = {"entryPoint": f"broken_environments:{name}", "rolloutLength": 64, "envsPerActor": 2}
    one = {"scaler": "fixed", "minActors": 1, "maxActors": 1}
    wanted = job(environment=environment, backend={"type": "Knative"}, scaling=one, stop={"rounds": 2})
    wanted["metadata"] |= {"namespace": namespace, "annotations": annotations}
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(wanted))
    stored = apiserver.get("ntj", "small", "-n", namespace)
    spec = resolve_stored(stored).spec
    images = {f"NITRO_{one}_IMAGE": "x" for one in ("ACTOR", "LEARNER", "REDIS")}
    secret = credentials_secret(JobView.of(stored, spec, Config.from_environment(images)))["stringData"]
    with (
        job_redis(secret, folder) as urls,
        actor(spec.environment.to_actor(), NITRO_REDIS_URL=urls["actor"], NITRO_TOKEN=secret["token"]) as url,
    ):
        process = start(
            "learn",
            variables={
                "KUBECONFIG": str(apiserver.kubeconfig),
                "NITRO_JOB_NAMESPACE": namespace,
                "NITRO_JOB_NAME": "small",
                "NITRO_RUN": stored["metadata"]["uid"],
                "NITRO_RUN_DIR": str(folder / "run"),
                "NITRO_ACTOR_URL": url,
                "NITRO_REDIS_URL": urls["learner"],
                "NITRO_TOKEN": secret["token"],
            },
        )
        _, err = process.communicate(timeout=LONG)
    assert process.returncode == 0, err
    status: dict[str, Any] = apiserver.get("ntj", "small", "-n", namespace)["status"]
    return status


def conditions_of(status: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """The operator's conditions of what the learner has reported of the check."""
    found = document.checked(TrainingStatus.model_validate(status["training"]))
    return [(one.type, one.value, one.reason, one.warning) for one in found]


def test_a_fault_is_a_condition_and_the_training_goes_on(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    status = learned(apiserver, namespace, tmp_path, "ChangesAction", {})
    assert status["training"]["state"] == "Succeeded"
    # On a machine that is busy the run may end before the check does.
    if status["training"]["check"] == "NotChecked":
        assert "the run has ended before it was" in status["training"]["checkMessage"]
        return
    assert conditions_of(status) == [("EnvironmentSound", "False", "EnvironmentFaulty", True)]
    assert "step changes the action that it is given, in place" in status["training"]["checkMessage"]
    assert "set spec.actor.image to its new image" in status["training"]["checkMessage"]


def test_a_job_that_says_so_is_not_checked(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    status = learned(apiserver, namespace, tmp_path, "ChangesAction", {"nitro.dev/no-check": "true"})
    assert status["training"]["state"] == "Succeeded"
    assert "check" not in status["training"]
    assert conditions_of(status) == []
