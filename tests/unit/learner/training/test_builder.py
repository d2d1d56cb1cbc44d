"""The backend that a job names, and the variables by which this process reaches its actors."""

from typing import Any

import pytest

from aws_support import IMAGE, ROLE
from nitro_api import JobSpec, load_job, resolve
from nitro_learner.backends.base import NotSet
from nitro_learner.backends.knative import KnativeBackend
from nitro_learner.backends.lambda_backend import LambdaBackend
from nitro_learner.backends.local import LocalBackend
from nitro_learner.training.builder import make_backend
from train_support import job

FUNCTION = {"functionName": "actors", "image": IMAGE, "roleArn": ROLE}


def spec_of(kind: str, **function: Any) -> JobSpec:
    block = {"lambda": FUNCTION | function} if kind == "Lambda" else {}
    return resolve(load_job(job(backend={"type": kind, **block}))).spec


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NITRO_ACTOR_URL", "NITRO_REDIS_URL", "NITRO_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_each_type_has_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_backend(spec_of("Local"), "run"), LocalBackend)
    assert isinstance(make_backend(spec_of("Lambda"), "run"), LambdaBackend)
    monkeypatch.setenv("NITRO_ACTOR_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NITRO_REDIS_URL", "redis://127.0.0.1:9")
    assert isinstance(make_backend(spec_of("Knative"), "run", operated=True), KnativeBackend)


def test_a_variable_that_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSet, match="the variable NITRO_ACTOR_URL is not set; `nitro learn` is for the pod"):
        make_backend(spec_of("Knative"), "run", operated=True)
    function = spec_of("Lambda", transport="Redis", redis={"secretName": "redis"})
    with pytest.raises(NotSet, match="needs the variable NITRO_REDIS_URL"):
        make_backend(function, "run")
    monkeypatch.setenv("NITRO_REDIS_URL", "redis://127.0.0.1:9")
    assert isinstance(make_backend(function, "run"), LambdaBackend)
