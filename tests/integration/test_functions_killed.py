"""The keeper of Lambda functions killed between every two steps: in the end exactly what should exist does.

Kubernetes' API is a real server; AWS's is the stand-in of aws_support. A kill is an exception that nothing
catches, thrown when a call has taken effect and before its answer is read. From there to the next call
nothing happens outside of the process, so these are all the places that differ. What comes after remembers
nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from apiserver import ApiServer
from kubernetes.aio.client import ApiClient, Configuration

from aws_support import CREDENTIALS, IMAGE, ROLE, FakeAws, Refusal, fake_aws, lambda_backend
from nitro_api import PROTOCOL_VERSION
from nitro_operator.builders import JobView
from nitro_operator.cache import Cache
from nitro_operator.client import ApiError, Kube
from nitro_operator.conditions import Condition
from nitro_operator.config import Config
from nitro_operator.functions import Aws, Functions, Want, finalizer, keeper
from nitro_operator.kinds import SECRET, TRAINING_JOB, JobKey
from nitro_operator.memory import spec_of
from operator_support import Object, job

CONFIG = Config.from_environment(
    {f"NITRO_{name}_IMAGE": f"registry.test/{name.lower()}:1" for name in ("ACTOR", "LEARNER", "REDIS")}
)
SETTINGS = {
    "provisionedConcurrency": {},
    "reservedConcurrency": 20,
    "tags": {"team": "rl"},
    "memoryMiB": 512,
}
ACTORS = 8
MOST_PASSES = 40


class Killed(BaseException):
    """As SIGKILL: nothing catches it."""


class Axe:
    """Counts the calls to both APIs, and kills after one of them."""

    def __init__(self, at: int | None) -> None:
        self._at = at
        self._place = -1
        self.fell = False

    def __call__(self) -> None:
        self._place += 1
        if self._place == self._at:
            self.fell = True
            raise Killed


class Chopped:
    """An object whose named calls may be the last."""

    def __init__(self, whole: Any, axe: Axe, *names: str) -> None:
        self._whole, self._axe, self._names = whole, axe, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if name not in self._names:
            return found

        async def call(*arguments: Any, **more: Any) -> Any:
            answer = await found(*arguments, **more)
            self._axe()
            return answer

        return call


class World:
    """The real API server, the stand-in for AWS, and operators that live and die."""

    def __init__(self, kube: Kube, service: FakeAws, namespace: str) -> None:
        self.kube, self.service, self.namespace = kube, service, namespace
        self.aws = Aws()
        self.told: list[Condition] = []
        self._numbers = itertools.count()

    async def new_job(self, **settings: Any) -> JobKey:
        name = f"job-{next(self._numbers)}"
        backend = lambda_backend(self.service, **{**SETTINGS, **settings})
        obj = job(name, backend=backend)
        await self.kube.create({**obj, "metadata": {"name": name, "namespace": self.namespace}})
        return JobKey(self.namespace, name)

    async def job(self, key: JobKey) -> Object | None:
        try:
            found = await self.kube.get(TRAINING_JOB, key.namespace, key.name)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return {"apiVersion": "nitro.dev/v1alpha1", "kind": "NitroTrainingJob", **found}

    async def delete(self, key: JobKey) -> None:
        found = await self.job(key)
        assert found is not None
        await self.kube.delete(TRAINING_JOB, key.namespace, key.name, found["metadata"]["uid"])

    async def live(self, key: JobKey, *, active: bool = True, kill_at: int | None = None) -> bool:
        """One operator from its start until nothing is left to do, or until it is killed; whether it was."""
        axe, cache = Axe(kill_at), Cache()
        functions = Functions(
            Chopped(self.kube, axe, "get", "merge"),
            cache,
            Chopped(self.aws, axe, "call"),
            lambda _, condition: self.told.append(condition),
            lambda _: None,
        )
        try:
            for _ in range(MOST_PASSES):
                found = await self.job(key)
                if found is None:
                    return axe.fell
                cache.put(TRAINING_JOB, found)
                if "deletionTimestamp" not in found["metadata"]:
                    view = JobView(found, spec_of(found), CONFIG)
                    functions.want(key, Want(view, active, ACTORS))
                again = await functions.tend(key)
                settled = functions.state(key).ready and functions.state(key).problem is None
                if again is None or (settled and again > keeper.CHANGING_SECONDS):
                    return axe.fell
        except Killed:
            return True
        raise AssertionError(f"not settled after {MOST_PASSES} passes: {functions.state(key)}")

    def functions(self) -> Functions:
        return Functions(self.kube, Cache(), self.aws, lambda _, one: self.told.append(one), lambda _: None)

    async def tended_once(self, key: JobKey, functions: Functions, actors: int = ACTORS) -> float | None:
        found = await self.job(key)
        assert found is not None
        functions._cache.put(TRAINING_JOB, found)
        if "deletionTimestamp" not in found["metadata"]:
            view = JobView(found, spec_of(found), CONFIG)
            functions.want(key, Want(view, True, actors))
        return await functions.tend(key)

    async def tended(self, key: JobKey, functions: Functions | None = None) -> Functions:
        """An operator, or the one given, that has looked until the function is ready or in trouble."""
        functions = functions or self.functions()
        for _ in range(MOST_PASSES):
            await self.tended_once(key, functions)
            state = functions.state(key)
            if state.problem is not None or state.ready:
                return functions
        raise AssertionError(f"not settled after {MOST_PASSES} passes")

    def function(self, key: JobKey) -> Object:
        found: Object = self.service.client().get_function(FunctionName=f"nitro-{self.namespace}-{key.name}")
        return found

    async def check_it_is_right(self, key: JobKey) -> None:
        """Exactly one function, as the job says, and exactly one mark on the job."""
        found, stored = self.function(key), await self.job(key)
        assert stored is not None
        assert stored["metadata"]["finalizers"] == [finalizer.FINALIZER]
        name = found["Configuration"]["FunctionName"]
        assert self.service.functions().count(name) == 1
        assert found["Code"]["ImageUri"] == IMAGE
        settings = found["Configuration"]
        assert (settings["MemorySize"], settings["Timeout"]) == (512, 60)
        assert '"id": "Hopper-v5"' in settings["Environment"]["Variables"]["NITRO_ENVIRONMENT"]
        assert found["Tags"]["team"] == "rl"
        assert found["Tags"]["nitro.dev/uid"] == stored["metadata"]["uid"]
        assert found["Concurrency"]["ReservedConcurrentExecutions"] == 20
        alias = self.service.client().get_alias(FunctionName=name, Name="nitro")
        versions = self.service.client().list_versions_by_function(FunctionName=name)["Versions"]
        newest = max(int(one["Version"]) for one in versions if one["Version"] != "$LATEST")
        assert alias["FunctionVersion"] == str(newest)
        assert self.service.provisioned[name]["RequestedProvisionedConcurrentExecutions"] == ACTORS

    async def check_nothing_is_left(self, key: JobKey) -> None:
        assert await self.job(key) is None
        assert f"nitro-{self.namespace}-{key.name}" not in self.service.functions()


@pytest.fixture(scope="module")
def service() -> Iterator[FakeAws]:
    with fake_aws() as running:
        yield running


@pytest.fixture
async def world(apiserver: ApiServer, namespace: str, service: FakeAws) -> AsyncIterator[World]:
    configuration = Configuration()
    configuration.host, configuration.ssl_ca_cert = apiserver.url, str(apiserver.ca)
    configuration.api_key = {"BearerToken": f"Bearer {apiserver.token}"}
    kube = Kube(ApiClient(configuration))
    meta = {"name": "aws", "namespace": namespace}
    await kube.create(
        {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": meta,
            "stringData": CREDENTIALS,
        }
    )
    made = World(kube, service, namespace)
    yield made
    made.aws.close()
    await kube.close()
    service.refuse, service.failed_state, service.pending_looks = lambda *_: None, None, 0


async def every_place(scenario: Callable[[int], Awaitable[bool]]) -> int:
    """Run a scenario with a kill at the first place, the second and so on; how many places there were."""
    for place in itertools.count():
        if not await scenario(place):
            return place
    raise AssertionError("unreachable")


@pytest.mark.slow
class TestKilled:
    async def test_while_it_makes_a_function(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            killed = await world.live(key, kill_at=place)
            if killed:
                assert not await world.live(key)
            await world.check_it_is_right(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_makes_a_function_of_a_job_that_is_deleted_meanwhile(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            killed = await world.live(key, kill_at=place)
            await world.delete(key)
            if await world.job(key) is not None:
                assert not await world.live(key)
            await world.check_nothing_is_left(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_puts_right_what_others_changed(self, world: World) -> None:
        key = await world.new_job()
        await world.live(key)
        name = {"FunctionName": f"nitro-{world.namespace}-{key.name}"}
        client, arn = world.service.client(), world.function(key)["Configuration"]["FunctionArn"]

        async def scenario(place: int) -> bool:
            client.update_function_configuration(**name, MemorySize=3008, Timeout=3)
            client.update_function_code(**name, ImageUri=IMAGE.replace("0.1.0", "0.0.9"))
            client.untag_resource(Resource=arn, TagKeys=["team"])
            client.put_function_concurrency(**name, ReservedConcurrentExecutions=1)
            killed = await world.live(key, kill_at=place)
            if killed:
                assert not await world.live(key)
            await world.check_it_is_right(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_removes_a_function(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            await world.live(key)
            await world.delete(key)
            killed = await world.live(key, kill_at=place)
            if killed and await world.job(key) is not None:
                assert not await world.live(key)
            await world.check_nothing_is_left(key)
            return killed

        assert await every_place(scenario) >= 3


class TestTroubles:
    """What goes wrong at AWS, and what the job says of it."""

    async def test_a_function_of_somebody_else_is_never_touched(self, world: World) -> None:
        key = await world.new_job()
        name = f"nitro-{world.namespace}-{key.name}"
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

    async def test_a_role_that_lambda_may_not_assume_is_named_and_tried_again(self, world: World) -> None:
        role = "arn:aws:iam::123456789012:role/new-role"
        key = await world.new_job(roleArn=role)
        functions = await world.tended(key)
        problem = functions.state(key).problem
        assert problem is not None
        assert problem.reason == "RoleNotAssumable"
        world.service.make_role(role)
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
            (Refusal(403, "ExpiredTokenException", "token FwoGZX"), "AwsCredentialsRefused", "Renew"),
            (Refusal(400, "InvalidSignatureException", "string FwoGZX"), "AwsCredentialsRefused", "Renew"),
        ],
    )
    async def test_a_refusal_is_told_with_its_remedy(
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

    async def test_a_missing_secret_is_told(self, world: World) -> None:
        key = await world.new_job(credentialsSecret="none")
        problem = (await world.tended(key)).state(key).problem
        assert problem is not None
        assert problem.reason == "SecretUnusable"
        assert "credentialsSecret" in problem.message

    async def test_a_function_that_could_not_be_made_is_made_anew(self, world: World) -> None:
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
        name = f"nitro-{world.namespace}-{key.name}"
        again = await world.tended_once(key, functions, actors=12)
        assert world.service.provisioned[name]["RequestedProvisionedConcurrentExecutions"] == ACTORS
        assert again is not None
        world.service.provisioned[name]["LastModified"] = "2026-01-01T00:00:00+0000"  # ten minutes later
        await world.tended_once(key, functions, actors=12)
        assert world.service.provisioned[name]["RequestedProvisionedConcurrentExecutions"] == 12

    async def test_deletion_waits_for_aws_but_not_for_ever(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = await world.new_job()
        functions = await world.tended(key)
        world.service.refuse = lambda *_: Refusal(503, "ServiceException", "not today")
        await world.delete(key)
        again = await world.tended_once(key, functions)
        assert again is not None
        assert again <= keeper.LAST_RETRY_SECONDS
        assert await world.job(key) is not None
        assert [condition.reason for condition in world.told] == ["FunctionNotRemoved"]
        assert "10 minutes" in world.told[0].message
        monkeypatch.setattr(keeper, "LET_GO_SECONDS", 0.0)
        await world.tended_once(key, functions)
        assert await world.job(key) is None
        assert world.told[1].reason == "FunctionLeft"
        assert (
            f"--region us-east-2 --function-name nitro-{world.namespace}-{key.name}" in world.told[1].message
        )

    async def test_a_namespace_that_goes_takes_its_secrets_first(self, world: World) -> None:
        key = await world.new_job()
        functions = await world.tended(key)
        found = await world.kube.get(SECRET, world.namespace, "aws")
        await world.kube.delete(SECRET, world.namespace, "aws", found["metadata"]["uid"])
        await world.delete(key)
        await world.tended_once(key, functions)
        await world.check_nothing_is_left(key)

    async def test_a_hanging_aws_holds_up_nobody(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        key = await world.new_job()
        monkeypatch.setattr(world.service, "hang_seconds", 0.2)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await world.tended_once(key, world.functions())
        ticking.cancel()
        assert ticks > 20, "the event loop went on while AWS was silent"


class TestNotManaged:
    """manage: false, where the function is somebody else's: it is checked, never changed."""

    @staticmethod
    async def job(world: World, **settings: Any) -> JobKey:
        own = {"manage": False, "functionName": "theirs", "region": "us-east-2"}
        gone = dict.fromkeys(("image", "roleArn", *SETTINGS))
        return await world.new_job(**{**gone, "memoryMiB": 512, **own, **settings})

    async def test_one_that_is_missing_is_told(self, world: World) -> None:
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
            ({"status": 200, "body": {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5"}}, None),
            ({"status": 200, "body": {"protocol": 0, "id": "Hopper-v5"}}, "ProtocolMismatch"),
            ({"status": 200, "body": {"protocol": PROTOCOL_VERSION, "id": "Ant-v5"}}, "OtherEnvironment"),
            ({"errorMessage": "no such module"}, "FunctionUnhealthy"),
        ],
    )
    async def test_one_that_is_there_is_asked_once(
        self, world: World, answer: Object, reason: str | None
    ) -> None:
        name = f"theirs-{reason}"
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
        if reason is None:
            await world.tended_once(key, functions)
            asked = [call for call in world.service.calls if call.endswith(f"{name}/invocations")]
            assert len(asked) == 1, "an invocation costs money"

    async def test_one_that_does_not_fit_is_told(self, world: World) -> None:
        world.service.client().create_function(
            FunctionName="small", Role=ROLE, PackageType="Image", Code={"ImageUri": "theirs:1"},
            MemorySize=256, Timeout=60,
        )  # fmt: skip
        key = await self.job(world, functionName="small")
        problem = (await world.tended(key)).state(key).problem
        assert problem is not None
        assert (problem.reason, "512" in problem.message) == ("MemoryDiffers", True)
