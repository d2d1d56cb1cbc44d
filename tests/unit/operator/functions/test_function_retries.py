"""How the controller of functions tries again: soon while AWS is busy, later when that lasts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from aws_support import IMAGE, ROLE
from nitro_api import PROTOCOL_VERSION
from nitro_api.spec.lambda_backend import FINALIZER
from nitro_operator.functions import Aws, FunctionController, Want
from nitro_operator.functions.aws import Access, AwsError
from nitro_operator.functions.controller import CHANGING_SECONDS, LAST_RETRY_SECONDS, QUICK_TRIES
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import SECRET, TRAINING_JOB, Kind
from operator_objects import make_job, make_view
from reconcile_bench import KEY, FakeKube

FUNCTION = {"manage": False, "functionName": "mine", "region": "us-east-2"}


class BusyAws(Aws):
    """AWS with a sound function, which refuses each call while `code` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.code: str | None = None

    async def call(self, access: Access, operation: str, **_: Any) -> dict[str, Any]:
        assert access.region == "us-east-2"
        if self.code is not None:
            raise AwsError(operation, self.code, "The operation cannot be performed at this time")
        if operation == "invoke":
            spec = {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5"}
            return {"Payload": json.dumps({"status": 200, "body": spec})}
        return {"State": "Active", "MemorySize": 1024, "Timeout": 900, "RevisionId": "1"}


class Tended:
    """A job's function, which is looked at whenever the test says so."""

    def __init__(self) -> None:
        backend = {"type": "Lambda", "lambda": FUNCTION}
        cache, self.aws = Cache(), BusyAws()
        cache.put(TRAINING_JOB, make_job(backend=backend))
        self.controller = FunctionController(
            FakeKube(),  # type: ignore[arg-type]
            cache,
            self.aws,
            lambda *_: None,
            lambda _: None,
            (),
        )
        self.controller.want(KEY, Want(make_view(backend=backend), active=True, actors=8))

    async def looks(self, times: int) -> list[float]:
        """Seconds until the next look, after each."""
        found = [await self.controller.tend(KEY) for _ in range(times)]
        return [again for again in found if again is not None]

    @property
    def reason(self) -> str | None:
        problem = self.controller.state(KEY).problem
        return problem.reason if problem is not None else None


@pytest.mark.parametrize(
    ("code", "reason"), [("ResourceConflictException", "FunctionBusy"), ("NoLease", "AwsUnavailable")]
)
async def test_a_trouble_that_passes_is_told_and_tried_less_often_when_it_lasts(
    code: str, reason: str
) -> None:
    function = Tended()
    await function.looks(1)
    assert function.controller.state(KEY).ready
    function.aws.code = code
    assert await function.looks(QUICK_TRIES) == [CHANGING_SECONDS] * QUICK_TRIES
    assert function.reason is None, "AWS changes a function within seconds"
    later = await function.looks(20)
    assert function.reason == reason
    assert later[0] <= CHANGING_SECONDS < LAST_RETRY_SECONDS / 2 <= later[-1]
    assert function.controller.state(KEY).ready, "it can still be invoked"
    function.aws.code = None
    await function.looks(1)
    assert function.reason is None
    function.aws.code = code
    assert await function.looks(QUICK_TRIES) == [CHANGING_SECONDS] * QUICK_TRIES, "it is counted anew"
    function.aws.close()


@pytest.mark.parametrize(("minutes", "released"), [(1, False), (11, True)])
async def test_a_deleted_job_whose_secret_may_not_be_read_is_released_all_the_same(
    monkeypatch: pytest.MonkeyPatch, minutes: int, released: bool
) -> None:
    """As while a namespace is deleted: the operator's Role there can be gone before the jobs."""
    function = Tended()
    kube: Any = function.controller._kube
    lambda_ = FUNCTION | {"manage": True, "image": IMAGE, "roleArn": ROLE, "credentialsSecret": "aws"}
    job = make_job(backend={"type": "Lambda", "lambda": lambda_})
    deleted = kube.server_now() - timedelta(minutes=minutes)
    job["metadata"] |= {
        "deletionTimestamp": deleted.isoformat(),
        "finalizers": [FINALIZER],
        "resourceVersion": "2",
    }
    function.controller._cache.put(TRAINING_JOB, job)

    async def get(kind: Kind, *_: Any) -> dict[str, Any]:
        if kind is SECRET:
            raise ApiError(403, "Forbidden", "secrets is forbidden")
        return job

    monkeypatch.setattr(kube, "get", get)
    await function.looks(1)
    patches = [one["metadata"].get("finalizers") for one in kube.written]
    assert patches == ([[]] if released else [])
