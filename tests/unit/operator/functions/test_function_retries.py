"""How the controller of functions tries again: soon while AWS is busy, later when that lasts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
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
MANAGED = {"image": IMAGE, "roleArn": ROLE}
REASON = {"StateReasonCode": "SubnetOutOfIPAddresses", "StateReason": "no address is left"}


async def no_token(*_: Any, create: bool) -> None:
    """In place of the token's Secret."""


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
            spec = {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5", "envs": 8}
            return {"Payload": json.dumps({"status": 200, "body": spec})}
        return {"State": "Active", "MemorySize": 1024, "Timeout": 900, "RevisionId": "1"}


class UnwillingAws(Aws):
    """AWS that accepts every change of a managed function, works on it, and cannot make it until `willing`.

    Args:
        shows_new: whether GetFunction shows the settings that could not be made, or the old ones.
    """

    WORK_SECONDS = 5.0

    def __init__(self, *, shows_new: bool) -> None:
        super().__init__()
        self.willing = True
        self.now = 0.0
        self.changes: list[tuple[str, float]] = []
        """Operations, and when they were asked for."""
        self.settings: dict[str, Any] | None = None
        self._shows_new = shows_new
        self._done_at = 0.0

    async def call(self, access: Access, operation: str, **arguments: Any) -> dict[str, Any]:
        assert access.region == "us-east-2"
        if operation == "get_function":
            return self._told()
        self.changes.append((operation, self.now))
        self._done_at = self.now + self.WORK_SECONDS
        if operation == "delete_function":
            self.settings = None
        elif operation == "create_function":
            self.settings = arguments | {"LastUpdateStatus": "Successful"}
            self.settings |= {"State": "Active"} if self.willing else REASON | {"State": "Failed"}
        else:
            assert operation == "update_function_configuration"
            assert self.settings is not None
            if self.willing or self._shows_new:
                self.settings |= arguments
            self.settings["LastUpdateStatus"] = "Successful" if self.willing else "Failed"
            self.settings |= {f"LastUpdateStatus{name[5:]}": told for name, told in REASON.items()}
        return {}

    def _told(self) -> dict[str, Any]:
        if self.settings is None:
            raise AwsError("get_function", "ResourceNotFoundException", "there is none")
        settings = {
            **self.settings,
            "FunctionArn": "arn:aws:lambda:us-east-2:123456789012:function:nitro-team_hopper",
            "ImageConfigResponse": {"ImageConfig": self.settings["ImageConfig"]},
        }
        if self.now < self._done_at:
            settings["LastUpdateStatus"] = "InProgress"
            if self.changes[-1][0] == "create_function":
                settings["State"] = "Pending"
        return {"Configuration": settings, "Code": self.settings["Code"], "Tags": self.settings["Tags"]}


class Tended:
    """A job's function, which is looked at whenever the test says so."""

    def __init__(self, aws: Any = None, function: dict[str, Any] = FUNCTION) -> None:
        backend = {"type": "Lambda", "lambda": function}
        self.cache, self.kube, self.aws = Cache(), FakeKube(), aws or BusyAws()
        job = make_job(backend=backend)
        job["metadata"]["finalizers"] = [FINALIZER]
        self.cache.put(TRAINING_JOB, job)
        self.controller = FunctionController(
            self.kube,  # type: ignore[arg-type]
            self.cache,
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

    async def passes(self, seconds: float) -> list[str | None]:
        """Let simulated time pass. Returns the reason that was told after each look."""
        reasons, end = [], self.aws.now + seconds
        while self.aws.now < end:
            (again,) = await self.looks(1)
            reasons.append(self.reason)
            self.aws.now += again
        return reasons

    @property
    def reason(self) -> str | None:
        problem = self.controller.state(KEY).problem
        return problem.reason if problem is not None else None


def being_deleted(function: dict[str, Any], since: datetime) -> dict[str, Any]:
    """A job with this function whose deletion was asked for at that time."""
    job = make_job(backend={"type": "Lambda", "lambda": function})
    job["metadata"] |= {
        "deletionTimestamp": since.isoformat(),
        "finalizers": [FINALIZER],
        "resourceVersion": "2",
    }
    return job


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


@pytest.mark.parametrize("failing", ["creation", "change, new settings shown", "change, old settings shown"])
async def test_a_change_that_aws_accepts_and_cannot_make_is_repeated_less_often_and_told_until_it_is_made(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    monkeypatch.setattr("nitro_operator.functions.controller.job_token", no_token)
    aws = UnwillingAws(shows_new="new" in failing)
    function = Tended(aws, MANAGED)
    if failing != "creation":
        await function.passes(60.0)
        assert aws.settings is not None
        aws.settings["MemorySize"] = 3008  # somebody has changed it
        aws.changes.clear()
    aws.willing = False
    reasons = await function.passes(900.0)
    first = reasons.index("SubnetOutOfIPAddresses")
    assert set(reasons[first:]) == {"SubnetOutOfIPAddresses"}, "it stays true while AWS tries again"
    assert function.controller.state(KEY).ready == (failing != "creation"), "a change leaves it as it was"
    *_, (_, before), (_, last) = aws.changes
    assert last - before >= LAST_RETRY_SECONDS / 2
    assert len(aws.changes) <= 40
    aws.willing = True
    await function.passes(2 * LAST_RETRY_SECONDS + 20.0)
    assert function.reason is None
    assert function.controller.state(KEY).ready
    assert aws.settings is not None
    assert aws.settings["MemorySize"] == 1024
    done = len(aws.changes)
    await function.passes(200.0)
    assert len(aws.changes) == done
    aws.close()


@pytest.mark.parametrize(("minutes", "released"), [(1, False), (11, True)])
async def test_a_deleted_job_whose_secret_may_not_be_read_is_released_all_the_same(
    monkeypatch: pytest.MonkeyPatch, minutes: int, released: bool
) -> None:
    """As while a namespace is deleted: the operator's Role there can be gone before the jobs."""
    function = Tended()
    kube = function.kube
    lambda_ = FUNCTION | {"manage": True, "image": IMAGE, "roleArn": ROLE, "credentialsSecret": "aws"}
    job = being_deleted(lambda_, kube.server_now() - timedelta(minutes=minutes))
    function.cache.put(TRAINING_JOB, job)

    async def get(kind: Kind, *_: Any) -> dict[str, Any]:
        if kind is SECRET:
            raise ApiError(403, "Forbidden", "secrets is forbidden")
        return job

    monkeypatch.setattr(kube, "get", get)
    await function.looks(1)
    patches = [one["metadata"].get("finalizers") for one in kube.written]
    assert patches == ([[]] if released else [])


class OtherServer(Aws):
    """Another server than AWS's, behind the job's endpointUrl: botocore makes nothing of its web page."""

    async def call(self, access: Access, operation: str, **_: Any) -> dict[str, Any]:
        assert access.region == "us-east-2", operation
        return {}


@pytest.mark.parametrize(("minutes", "released"), [(1, False), (11, True)])
async def test_a_server_that_is_not_aws_is_told_and_keeps_no_deleted_job(
    monkeypatch: pytest.MonkeyPatch, minutes: int, released: bool
) -> None:
    monkeypatch.setattr("nitro_operator.functions.controller.job_token", no_token)
    function = Tended(OtherServer(), MANAGED)
    await function.looks(1)
    assert function.reason == "AwsAnswerUnreadable"
    kube = function.kube
    kube.job = being_deleted(MANAGED, kube.server_now() - timedelta(minutes=minutes))
    function.cache.put(TRAINING_JOB, kube.job)
    await function.looks(1)
    assert [one["metadata"].get("finalizers") for one in kube.written] == ([[]] if released else [])
    function.aws.close()


async def test_the_function_of_a_deleted_job_does_not_count_for_a_new_one_of_its_name() -> None:
    """The new job's learner would start before its own function exists."""
    function = Tended()
    await function.looks(1)
    assert function.controller.state(KEY).ready
    job = make_job(backend={"type": "Lambda", "lambda": FUNCTION})
    job["metadata"] |= {"uid": "another", "creationTimestamp": "2026-01-01T00:00:09Z"}
    function.cache.put(TRAINING_JOB, job)
    assert not function.controller.state(KEY).ready
    function.aws.close()
