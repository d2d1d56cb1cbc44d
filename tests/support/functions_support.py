"""The controller of Lambda functions on its own, between a real API server and the stand-in for AWS."""

from __future__ import annotations

import itertools
from typing import Any

from kubernetes.aio.client import ApiClient, Configuration

from apiserver import ApiServer
from aws_support import CREDENTIALS, IMAGE, FakeAws, lambda_backend, secret
from nitro_api import resolve_stored
from nitro_api.spec.lambda_backend import FINALIZER
from nitro_operator.builders import JobView
from nitro_operator.config import Config
from nitro_operator.functions import Aws, FunctionController, Want, controller
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, JobKey
from nitro_operator.status.conditions import Condition
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


class Functions(FunctionController):
    """The part of an operator that tends functions, and the cache in which its watch would put the jobs."""

    def __init__(self, world: World) -> None:
        self.jobs = Cache()
        super().__init__(
            world.kube,
            self.jobs,
            world.aws,
            lambda _, condition: world.told.append(condition),
            lambda _: None,
            world.endpoints,
        )


class World:
    """The real API server, the stand-in for AWS, and operators that live and die."""

    def __init__(self, kube: Kube, service: FakeAws, namespace: str) -> None:
        self.kube, self.service, self.namespace = kube, service, namespace
        self.aws = Aws()
        self.told: list[Condition] = []
        self.endpoints = ["127.0.0.1"]
        self._numbers = itertools.count()

    @classmethod
    async def between(cls, apiserver: ApiServer, service: FakeAws, namespace: str) -> World:
        configuration = Configuration()
        configuration.host, configuration.ssl_ca_cert = apiserver.url, str(apiserver.ca)
        configuration.api_key = {"BearerToken": f"Bearer {apiserver.token}"}
        world = cls(Kube(ApiClient(configuration)), service, namespace)
        credentials = secret("aws", **CREDENTIALS)
        await world.kube.create({**credentials, "metadata": {"name": "aws", "namespace": namespace}})
        return world

    async def close(self) -> None:
        """The service is as it was, for the next test."""
        self.aws.close()
        await self.kube.close()
        self.service.refuse, self.service.failed_state = lambda *_: None, None

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
        await self.kube.delete(TRAINING_JOB, found)

    async def live(self, key: JobKey, *, active: bool = True, kill_at: int | None = None) -> bool:
        """One operator from its start until nothing is left to do, or until it is killed; whether it was."""
        axe, cache = Axe(kill_at), Cache()
        functions = FunctionController(
            Chopped(self.kube, axe, "get", "merge"),
            cache,
            Chopped(self.aws, axe, "call"),
            lambda _, condition: self.told.append(condition),
            lambda _: None,
            self.endpoints,
        )
        try:
            for _ in range(MOST_PASSES):
                found = await self.job(key)
                if found is None:
                    return axe.fell
                cache.put(TRAINING_JOB, found)
                if "deletionTimestamp" not in found["metadata"]:
                    view = JobView.of(found, resolve_stored(found).spec, CONFIG)
                    functions.want(key, Want(view, active, ACTORS))
                again = await functions.tend(key)
                settled = functions.state(key).ready and functions.state(key).problem is None
                if again is None or (settled and again > controller.CHANGING_SECONDS):
                    return axe.fell
        except Killed:
            return True
        raise AssertionError(f"not settled after {MOST_PASSES} passes: {functions.state(key)}")

    def functions(self) -> Functions:
        return Functions(self)

    async def tended_once(self, key: JobKey, functions: Functions, actors: int = ACTORS) -> float | None:
        found = await self.job(key)
        assert found is not None
        functions.jobs.put(TRAINING_JOB, found)
        if "deletionTimestamp" not in found["metadata"]:
            view = JobView.of(found, resolve_stored(found).spec, CONFIG)
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
        found: Object = self.service.client().get_function(FunctionName=f"nitro-{self.namespace}_{key.name}")
        return found

    async def check_it_is_right(self, key: JobKey) -> None:
        """Exactly one function, as the job says, and exactly one mark on the job."""
        found, stored = self.function(key), await self.job(key)
        assert stored is not None
        assert stored["metadata"]["finalizers"] == [FINALIZER]
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
        assert f"nitro-{self.namespace}_{key.name}" not in self.service.functions()
