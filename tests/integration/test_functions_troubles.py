"""What goes wrong with Lambda functions at AWS, and functions of somebody else: what a job says of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aws_support import ROLE, Refusal
from functions_support import ACTORS, SETTINGS, World
from nitro_api import PROTOCOL_VERSION
from nitro_operator.functions import Aws, controller
from nitro_operator.kube.kinds import SECRET, JobKey
from operator_support import Object


class TestTroubles:
    """What goes wrong at AWS, and what the job says of it."""

    async def test_a_function_of_another_owner_is_never_changed(self, world: World) -> None:
        key = await world.new_job()
        name = f"nitro-{world.namespace}_{key.name}"
        world.service.client().create_function(
            FunctionName=name, Role=ROLE, PackageType="Image", Code={"ImageUri": "theirs:1"}
        )
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == "NameTaken"
        assert f"aws lambda delete-function --function-name {name}" in problem.message
        assert not functions.state(key).ready
        await world.delete(key)
        await world.live(key)
        assert await world.job(key) is None
        assert name in world.service.functions()

    async def test_a_role_that_lambda_may_not_assume_is_named_and_retried(self, world: World) -> None:
        role = "arn:aws:iam::123456789012:role/new-role"
        key = await world.new_job(roleArn=role)
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == "RoleNotAssumable"
        world.service.make_role(role)
        await world.tended(key, functions)
        assert functions.state(key).ready

    async def test_without_a_lease_nothing_is_sent_that_changes_a_function(self, world: World) -> None:
        held, key = True, await world.new_job()

        def lose(method: str, _: str) -> Refusal | None:
            nonlocal held
            if method != "POST":
                return None
            held = False
            return Refusal(503, "ServiceException", "try again")

        world.aws, world.service.refuse = Aws(lambda: held), lose
        world.service.calls.clear()
        functions = world.functions()
        await world.tended_once(key, functions)
        await world.tended_once(key, functions)
        assert [call.partition(" ")[0] for call in world.service.calls] == ["GET", "POST", "GET"]
        assert functions.state(key).problem is None
        held, world.service.refuse = True, lambda *_: None
        await world.tended(key, functions)
        assert functions.state(key).ready

    @pytest.mark.parametrize(
        ("refusal", "reason", "words"),
        [
            (
                Refusal(403, "AccessDeniedException", "User x may not"),
                "AwsAccessDenied",
                "lambda:GetFunction",
            ),
            (Refusal(418, "SecretCode", "FwoGZX"), "AwsRefused", "HTTP418"),
            (Refusal(403, "ExpiredTokenException", "token FwoGZX"), "AwsCredentialsRefused", "Renew"),
            (Refusal(400, "InvalidSignatureException", "string FwoGZX"), "AwsCredentialsRefused", "Renew"),
        ],
    )
    async def test_a_refusal_is_reported_with_its_remedy(
        self, world: World, refusal: Refusal, reason: str, words: str
    ) -> None:
        key = await world.new_job()
        world.service.refuse = lambda *_: refusal
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == reason
        assert words in problem.message
        assert "FwoGZX" not in problem.message, "AWS quotes the request, and with it the session token"
        world.service.refuse = lambda *_: None
        await world.tended(key, functions)
        assert functions.state(key).ready

    async def test_a_missing_secret_is_reported(self, world: World) -> None:
        key = await world.new_job(credentialsSecret="none")
        problem = (await world.tended(key)).state(key).problem
        assert problem is not None
        assert problem.reason == "SecretUnusable"
        assert "credentialsSecret" in problem.message

    async def test_an_endpoint_that_the_platform_does_not_list_is_not_called(self, world: World) -> None:
        key = await world.new_job()
        world.endpoints = ["127.0.0.1:1", "emulator.test"]
        before = len(world.service.calls)
        problem = (await world.tended(key)).state(key).problem
        assert problem is not None
        assert problem.reason == "EndpointForbidden"
        assert "lambda.endpoints" in problem.message
        assert len(world.service.calls) == before, "it may be any server that the operator can reach"

    async def test_a_function_that_could_not_be_created_is_created_again(self, world: World) -> None:
        key = await world.new_job()
        world.service.failed_state = ("ImageAccessDenied", "Lambda does not have permission")
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == "ImageAccessDenied"
        assert "docs/lambda.md" in problem.message
        before = world.service.calls.count("POST /2015-03-31/functions")
        await world.tended(key, functions)
        world.service.failed_state = None
        await world.tended(key, functions)
        assert functions.state(key).ready
        assert world.service.calls.count("POST /2015-03-31/functions") == before + 1

    async def test_a_suspended_job_keeps_its_function_and_nothing_that_costs(self, world: World) -> None:
        key = await world.new_job()
        await world.live(key)
        await world.live(key, active=False)
        found = world.function(key)
        assert "Concurrency" not in found
        assert found["Configuration"]["FunctionName"] not in world.service.provisioned
        await world.live(key)
        await world.check_it_is_right(key)

    async def test_provisioned_concurrency_changes_at_most_once_in_its_minutes(self, world: World) -> None:
        key = await world.new_job()
        functions = await world.tended(key)
        name = f"nitro-{world.namespace}_{key.name}"
        again = await world.tended_once(key, functions, actors=12)
        assert world.service.provisioned[name]["RequestedProvisionedConcurrentExecutions"] == ACTORS
        assert again is not None
        assert functions.state(key).provisioned == ACTORS, "what is paid for"
        world.service.provisioned[name]["LastModified"] = "2026-01-01T00:00:00+0000"  # ten minutes later
        await world.tended_once(key, functions, actors=12)
        assert world.service.provisioned[name]["RequestedProvisionedConcurrentExecutions"] == 12
        assert functions.state(key).provisioned == 12

    async def test_deletion_waits_for_aws_for_a_limited_time(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = await world.new_job()
        functions = await world.tended(key)
        world.service.refuse = lambda *_: Refusal(503, "ServiceException", "not today")
        await world.delete(key)
        again = await world.tended_once(key, functions)
        assert again is not None
        assert again <= controller.LAST_RETRY_SECONDS
        assert await world.job(key) is not None
        assert [condition.reason for condition in world.told] == ["FunctionNotRemoved"]
        assert "10 minutes" in world.told[0].message
        monkeypatch.setattr(controller, "LET_GO_SECONDS", 0.0)
        await world.tended_once(key, functions)
        assert await world.job(key) is None
        assert world.told[1].reason == "FunctionLeft"
        assert (
            f"--region us-east-2 --function-name nitro-{world.namespace}_{key.name}" in world.told[1].message
        )

    async def test_a_function_is_deleted_after_its_secret_was_deleted(self, world: World) -> None:
        key = await world.new_job()
        functions = await world.tended(key)
        found = await world.kube.get(SECRET, world.namespace, "aws")
        await world.kube.delete(SECRET, found)
        await world.delete(key)
        await world.tended_once(key, functions)
        await world.check_nothing_is_left(key)

    async def test_a_hanging_aws_does_not_block_the_event_loop(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = await world.new_job()
        hold = threading.Event()
        monkeypatch.setattr(world.service, "hold", hold)

        async def tick() -> None:
            for _ in range(20):
                await asyncio.sleep(0.01)
            hold.set()

        ticking = asyncio.create_task(tick())
        await world.tended_once(key, world.functions())
        assert ticking.done(), "the event loop went on while AWS was silent"
        await ticking


class TestNotManaged:
    """manage: false, where the function is somebody else's: it is checked, never changed."""

    @staticmethod
    async def job(world: World, **settings: Any) -> JobKey:
        own = {"manage": False, "functionName": "theirs", "region": "us-east-2"}
        gone = dict.fromkeys(("image", "roleArn", *SETTINGS))
        return await world.new_job(**{**gone, "memoryMiB": 512, **own, **settings})

    async def test_a_missing_function_is_reported(self, world: World) -> None:
        key = await self.job(world, functionName="nowhere")
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == "FunctionMissing"
        stored = await world.job(key)
        assert stored is not None
        assert "finalizers" not in stored["metadata"]

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ({"status": 200, "body": {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5", "envs": 8}}, None),
            (
                {"status": 200, "body": {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5", "envs": 4}},
                "EnvsDiffer",
            ),
            ({"status": 200, "body": {"protocol": 0, "id": "Hopper-v5"}}, "ProtocolMismatch"),
            (
                {"status": 200, "body": {"protocol": PROTOCOL_VERSION, "id": "Ant-v5", "envs": 8}},
                "OtherEnvironment",
            ),
            ({"errorMessage": "secret words"}, "FunctionUnhealthy"),
        ],
    )
    async def test_an_existing_function_is_asked_once(
        self, world: World, answer: Object, reason: str | None
    ) -> None:
        name = f"theirs-{world.namespace}"
        world.service.client().create_function(
            FunctionName=name, Role=ROLE, PackageType="Image", Code={"ImageUri": "theirs:1"},
            MemorySize=512, Timeout=60,
        )  # fmt: skip
        key = await self.job(world, functionName=name)
        world.service.answers[name] = answer
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert (problem.reason if problem else None) == reason
        assert functions.state(key).ready == (reason is None)
        assert problem is None or "secret words" not in problem.message
        if reason is None:
            await world.tended_once(key, functions)
            asked = [call for call in world.service.calls if call.endswith(f"{name}/invocations")]
            assert len(asked) == 1, "an invocation costs money"

    async def test_a_function_that_does_not_fit_is_reported(self, world: World) -> None:
        world.service.client().create_function(
            FunctionName="small", Role=ROLE, PackageType="Image", Code={"ImageUri": "theirs:1"},
            MemorySize=256, Timeout=60,
        )  # fmt: skip
        key = await self.job(world, functionName="small")
        problem = (await world.tended(key)).state(key).problem
        assert problem is not None
        assert (problem.reason, "512" in problem.message) == ("MemoryDiffers", True)
