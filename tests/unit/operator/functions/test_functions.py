"""The Lambda function of a job: its desired state, the steps towards it, and the problems reported."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials

from nitro_operator.functions import problems
from nitro_operator.functions.aws import Access, Aws, AwsError
from nitro_operator.functions.desired import (
    DesiredFunction,
    ObservedFunction,
    desired_function,
    next_change,
    parse,
    provisioning,
)
from nitro_operator.functions.reconciler import FunctionOutcome, FunctionReconciler
from operator_objects import UID, make_job, make_view

IMAGE = "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0"


ROLE = "arn:aws:iam::123456789012:role/nitro-actor"


ARN = "arn:aws:lambda:us-east-2:123456789012:function:nitro-team_hopper"


def backend(**changes: Any) -> dict[str, Any]:
    return {"type": "Lambda", "lambda": {"image": IMAGE, "roleArn": ROLE, **changes}}


def wanted(redis_url: str | None = None, token: str | None = "token", **changes: Any) -> DesiredFunction:
    return desired_function(make_view(backend=backend(**changes)), redis_url, token)


def told(what: DesiredFunction) -> dict[str, Any]:
    """What AWS tells of the function right after it was made."""
    creation = what.creation()
    settings = {
        **creation,
        "FunctionArn": ARN,
        "ImageConfigResponse": {"ImageConfig": creation["ImageConfig"]},
        "State": "Active",
        "LastUpdateStatus": "Successful",
    }
    reserved = {} if what.reserved is None else {"ReservedConcurrentExecutions": what.reserved}
    return {
        "Configuration": settings,
        "Code": {"ImageUri": what.image},
        "Tags": {**what.tags, "somebody": "else's"},
        "Concurrency": reserved,
    }


def made(what: DesiredFunction, **changes: Any) -> ObservedFunction:
    """The same, as it is read."""
    return dataclasses.replace(parse(told(what)), **changes)


class Provisioning(Aws):
    """AWS with the function and its provisioned concurrency; `calls` are those that change that."""

    def __init__(self, what: DesiredFunction, **now: Any) -> None:
        super().__init__()
        self._what, self._now = what, now
        self.calls: list[tuple[str, int | None]] = []

    async def call(self, access: Access, operation: str, **arguments: Any) -> dict[str, Any]:
        assert access.region == "us-east-2"
        if operation == "get_function":
            return told(self._what)
        if operation == "get_provisioned_concurrency_config":
            return self._now
        self.calls.append((operation, arguments.get("ProvisionedConcurrentExecutions")))
        return {}

    async def bring(self, actors: int | None) -> FunctionOutcome:
        reconciler = FunctionReconciler(self, Access("us-east-2", None, None), self._what.name)
        published = made(self._what).code_key
        return await reconciler.bring(self._what, UID, active=actors != 0, actors=actors, published=published)


class TestDesiredFunction:
    def test_the_function_is_made_from_the_jobs_spec(self) -> None:
        creation = wanted(memoryMiB=512, tags={"team": "rl"}).creation()
        assert creation["FunctionName"] == "nitro-team_hopper"
        assert creation["Code"] == {"ImageUri": IMAGE}
        assert (creation["MemorySize"], creation["Timeout"]) == (512, 60)
        assert creation["ImageConfig"]["EntryPoint"] == ["python", "-m", "awslambdaric"]
        assert creation["Tags"] == {
            "team": "rl",
            "nitro.dev/job": "team/hopper",
            "nitro.dev/uid": UID,
            "nitro.dev/managed-by": "nitro-operator",
        }
        variables = creation["Environment"]["Variables"]
        assert set(variables) == {"NITRO_ENVIRONMENT", "NITRO_TOKEN_SHA256"}
        assert variables["NITRO_TOKEN_SHA256"] == hashlib.sha256(b"token").hexdigest()
        learner_of_0_1 = wanted(token=None).creation()["Environment"]["Variables"]
        assert set(learner_of_0_1) == {"NITRO_ENVIRONMENT"}
        assert creation["VpcConfig"] == {"SubnetIds": [], "SecurityGroupIds": []}

    def test_redis_and_the_vpc_are_passed_on(self) -> None:
        vpc = {"subnetIds": ["subnet-b", "subnet-a"], "securityGroupIds": ["sg-1"]}
        what = wanted("rediss://u:p@h", transport="Redis", redis={"secretName": "r"}, vpc=vpc)
        assert what.configuration["Environment"]["Variables"]["NITRO_REDIS_URL"] == "rediss://u:p@h"
        assert what.configuration["VpcConfig"]["SubnetIds"] == ["subnet-a", "subnet-b"]


class TestSteps:
    def test_a_missing_function_is_created_only_for_a_running_job(self) -> None:
        what = wanted()
        step = next_change(what, None, active=True)
        assert step is not None
        assert (step.operation, step.arguments) == ("create_function", what.creation())
        assert next_change(what, None, active=False) is None

    def test_a_function_without_differences_is_not_changed(self) -> None:
        what = wanted(reservedConcurrency=20, tags={"team": "rl"})
        assert next_change(what, made(what), active=True) is None

    @pytest.mark.parametrize(
        ("drift", "operation"),
        [
            ({"image": "other:1"}, "update_function_code"),
            ({"architecture": "arm64"}, "update_function_code"),
            ({"tags": {}}, "tag_resource"),
            ({"reserved": None}, "put_function_concurrency"),
            ({"reserved": 3}, "put_function_concurrency"),
        ],
    )
    def test_each_difference_has_its_call(self, drift: dict[str, Any], operation: str) -> None:
        what = wanted(reservedConcurrency=20)
        step = next_change(what, made(what, **drift), active=True)
        assert step is not None
        assert step.operation == operation

    @pytest.mark.parametrize("name", ["Role", "MemorySize", "Timeout", "Environment", "VpcConfig"])
    def test_every_setting_is_compared(self, name: str) -> None:
        what = wanted()
        changed = {**made(what).configuration, name: "other"}
        step = next_change(what, made(what, configuration=changed), active=True)
        assert step is not None
        assert (step.operation, step.arguments[name]) == (
            "update_function_configuration",
            what.configuration[name],
        )

    def test_a_job_that_does_not_run_releases_reserved_concurrency(self) -> None:
        what = wanted(reservedConcurrency=20)
        step = next_change(what, made(what), active=False)
        assert step is not None
        assert step.operation == "delete_function_concurrency"

    @pytest.mark.parametrize(
        ("code", "operation"),
        [
            ("ImageAccessDenied", "update_function_code"),
            ("SubnetOutOfIPAddresses", "update_function_configuration"),
        ],
    )
    def test_a_failed_change_is_retried_when_it_is_due(self, code: str, operation: str) -> None:
        what = wanted()
        failed = made(what, update="Failed", update_reason=(code, "no"))
        assert next_change(what, failed, active=True) is None
        step = next_change(what, failed, active=True, again=True)
        assert step is not None
        assert step.operation == operation

    @pytest.mark.parametrize(
        ("wanted", "current", "since", "change", "left"),
        [
            (8, 0, float("inf"), 8, 0),  # the first time
            (8, 8, 1, None, 0),
            (12, 8, 599, None, 1),
            (12, 8, 600, 12, 0),
            (4, 8, 300, None, 300),  # down as well: what was asked for is paid for
            (0, 8, 1, 0, 0),  # but nothing is kept for nobody
        ],
    )
    def test_provisioned_concurrency_changes_only_after_the_interval(
        self, wanted: int, current: int, since: float, change: int | None, left: float
    ) -> None:
        assert provisioning(wanted, current, 10, since) == (change, left)


class TestProvisioning:
    async def test_an_operator_that_has_just_started_keeps_the_number(self) -> None:
        then = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        aws = Provisioning(
            wanted(provisionedConcurrency={}),
            Status="READY",
            RequestedProvisionedConcurrentExecutions=64,
            AllocatedProvisionedConcurrentExecutions=64,
            LastModified=then,
        )
        outcome = await aws.bring(None)
        aws.close()
        assert (aws.calls, outcome.provisioned) == ([], 64)

    @pytest.mark.parametrize(
        ("given", "actors", "minutes", "calls", "counted"),
        [
            (0, 64, 11, [("put_provisioned_concurrency_config", 64)], 64),
            (0, 64, 4, [], 0),  # not due yet, and not paid for
            (16, 64, 4, [], 16),
            (64, 64, 4, [], 64),
            (0, 0, 4, [("delete_provisioned_concurrency_config", None)], 0),
        ],
    )
    async def test_unavailable_provisioned_concurrency_is_not_counted_and_is_requested_again(
        self, given: int, actors: int, minutes: float, calls: list[Any], counted: int
    ) -> None:
        aws = Provisioning(
            wanted(provisionedConcurrency={}),
            Status="FAILED",
            StatusReason="the account has no more",
            RequestedProvisionedConcurrentExecutions=64,
            AllocatedProvisionedConcurrentExecutions=given,
            LastModified=(datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(),
        )
        outcome = await aws.bring(actors)
        aws.close()
        assert (aws.calls, outcome.provisioned) == (calls, counted)
        waits = not calls and given < actors
        assert (outcome.problem is not None, outcome.again is not None) == (waits, waits)
        if outcome.problem:
            assert outcome.problem.reason == "NotProvisioned"


class TestProblems:
    def test_problems_contain_no_password_or_token(self) -> None:
        said = 'environment variables exceeded: {"NITRO_REDIS_URL": "rediss://user:secret@host:6379"}'
        told = problems.refusal(AwsError("create_function", "InvalidParameterValueException", said), "f")
        assert "secret" not in told.message
        assert "(address hidden)" in told.message
        access = Access("us-east-2", None, ("AKIA", "wJalr", "FwoGZX"))
        assert "wJalr" not in repr(access)
        assert "FwoGZX" not in repr(access)

    @pytest.mark.parametrize(
        ("code", "said", "reason"),
        [
            ("InvalidParameterValueException", "Source image x does not exist.", "ImageNotFound"),
            (
                "InvalidParameterValueException",
                "Specified ReservedConcurrentExecutions for function decreases account's "
                "UnreservedConcurrentExecution below its minimum value of [100].",
                "AccountLimit",
            ),
            ("AccessDeniedException", "no", "AwsAccessDenied"),
            ("NoCredentials", "Unable to locate credentials", "AwsCredentialsMissing"),
            ("Unreachable", "Could not connect", "AwsUnreachable"),
            ("TooManyRequestsException", "Rate exceeded", "AwsUnavailable"),
            ("SomethingNew", "said", "AwsRefused"),
        ],
    )
    def test_every_refusal_has_a_reason_and_announces_the_retry(
        self, code: str, said: str, reason: str
    ) -> None:
        told = problems.refusal(AwsError("create_function", code, said), "nitro-team_hopper")
        assert told.reason == reason
        assert "nitro-team_hopper" in told.message
        assert told.message.endswith("it is tried again by itself.")

    @pytest.mark.parametrize("ends", [False, True])
    async def test_a_function_whose_tags_are_hidden_is_not_taken_for_another_jobs(self, ends: bool) -> None:
        """AWS hides them from an operator without lambda:ListTags."""
        what = wanted()
        hidden = told(what) | {"TagsError": {"ErrorCode": "AccessDeniedException", "Message": "no"}}
        del hidden["Tags"]

        class Hiding(Aws):
            async def call(self, _access: Access, operation: str, **_arguments: Any) -> dict[str, Any]:
                assert operation == "get_function", "and nothing is changed"
                return hidden

        reconciler = FunctionReconciler(Hiding(), Access("us-east-2", None, None), what.name)
        with pytest.raises(AwsError) as error:
            await (reconciler.remove(UID) if ends else reconciler.bring(what, UID, active=True, actors=1))
        said = problems.refusal(error.value, what.name)
        assert said.reason == "AwsAccessDenied"
        assert "lambda:ListTags" in said.message

    async def test_an_invalid_endpoint_is_reported_with_its_field(self) -> None:
        aws = Aws()
        access = Access("us-east-2", "http://two..dots", ("id", "key", None))
        with pytest.raises(AwsError) as error:
            await aws.call(access, "get_function", FunctionName="f")
        aws.close()
        told = problems.refusal(error.value, "f")
        assert told.reason == "AwsEndpointInvalid"
        assert "spec.backend.lambda.endpointUrl is not a valid address" in told.message
        assert "http://two..dots" in told.message

    async def test_expired_credentials_are_reported_as_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        old = {"access_key": "AKID", "secret_key": "s", "token": "t", "expiry_time": "2026-01-01T00:00:00Z"}
        credentials = RefreshableCredentials.create_from_metadata(old, lambda: old, "test")
        monkeypatch.setattr("botocore.session.Session.get_credentials", lambda _: credentials)
        aws = Aws()
        with pytest.raises(AwsError) as error:
            await aws.call(Access("us-east-2", None, None), "get_function", FunctionName="f")
        aws.close()
        assert problems.refusal(error.value, "f").reason == "AwsCredentialsRefused"

    def test_the_function_that_remains_is_named_with_the_command_to_delete_it(self) -> None:
        cause = problems.refusal(AwsError("delete_function", "AccessDeniedException", "no"), "f")
        told = problems.left_behind(cause, make_job(backend=backend()))
        assert told.message.endswith("--region us-east-2 --function-name nitro-team_hopper")
