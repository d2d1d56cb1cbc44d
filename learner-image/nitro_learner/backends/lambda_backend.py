"""Actors as invocations of an AWS Lambda function, one for each slot, answered when its fragment is there."""

import asyncio
import base64
import dataclasses
import json
import logging
import random

from nitro_actor import parcel, wire
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import Request
from nitro_api.rules import payload_rules
from nitro_api.spec.lambda_backend import LambdaBackendSpec
from nitro_learner.backends import lambda_errors, lambda_report
from nitro_learner.backends.actor_answers import excerpt, read_ack, read_failure, read_object, read_spec
from nitro_learner.backends.base import (
    ROLLOUT,
    Ack,
    ActorBackend,
    BackendError,
    FatalError,
    RetryableError,
    answering,
)
from nitro_learner.backends.cache.base import Cache
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.lambda_client import Invoked, LambdaClient, Payload, Prefix
from nitro_learner.backends.lambda_errors import CredentialsError
from nitro_learner.backends.lambda_report import InvocationReport

log = logging.getLogger(__name__)

_INIT_SECONDS = 10.0
"""Lambda's limit of the init phase, which comes on top of the function's time-out."""

_MARGIN_SECONDS = 5.0
"""The network's share: the learner must not give up before Lambda has said that the time is out."""

_PROBE_SECONDS = 60.0
_PAUSE_SECONDS = 2.0
_START_FAILURES = 3
_NEARLY_FULL = 0.9

_OWN_FAULTS = frozenset({"bad_answer", "out_of_memory", "sandbox_died"})
"""Errors at the start that stay the same at every try, if they came several times."""


class LambdaBackend(ActorBackend):
    """Actors as invocations of one function; see ActorBackend.

    With `transport: Payload` a request carries weights and end state and its response the fragment, which is
    put into the cache of this process; the dispatcher takes it from there as it would from Redis.

    Args:
        settings: resolved spec.backend.lambda.
        environment: the id that the function must play; its settings are not the learner's.
        envs: copies of it that the function must have, spec.environment.envsPerActor.
        limit: requests at once; the function's reserved concurrency, where it has one, is kept to as well.
        token: what the function asks for; None where it asks for nothing.
        redis_url: where this learner reaches the Redis of `transport: Redis`; None with `Payload`.
        ready_seconds: how long to wait for a function that is being made or changed.
        created_elsewhere: whether the operator makes the function, so that it may not be there yet.
    """

    grace_seconds = _INIT_SECONDS + _MARGIN_SECONDS

    def __init__(
        self,
        settings: LambdaBackendSpec,
        environment: str,
        *,
        envs: int,
        limit: int,
        token: str | None = None,
        redis_url: str | None = None,
        ready_seconds: float = 300.0,
        created_elsewhere: bool = False,
    ) -> None:
        self._settings = settings
        self._name = settings.function_name
        self._environment = environment
        self._envs = envs
        entry = f'"token":{json.dumps(token)},' if token is not None else ""
        self._plain = Prefix(f'{{{entry}"kind":"rollout",'.encode())
        self._probe = Payload(Prefix(f'{{{entry}"kind":"spec"}}'.encode()), b"")
        self._redis_url = redis_url
        self._ready_seconds = ready_seconds
        self._created_elsewhere = created_elsewhere
        self._client = LambdaClient(self._name, settings.region, settings.endpoint_url, settings.qualifier)
        self._capacity = Capacity(1)
        self.set_limit(limit)
        self._cache: MemoryCache | None = None
        self._prefixes: dict[str, Prefix] = {}
        self._bills: list[float] = []
        self._warned = False

    def open_cache(self, run: str) -> Cache:
        if self._redis_url is not None:
            return RedisCache(self._redis_url, run)
        self._cache = MemoryCache(run)
        return self._cache

    @property
    def limit(self) -> int:
        return self._capacity.limit

    @property
    def in_use(self) -> int:
        return self._capacity.in_flight

    def set_limit(self, limit: int) -> None:
        reserved = self._settings.reserved_concurrency
        self._capacity.set_limit(limit if reserved is None else min(limit, reserved))

    async def start(self) -> DescribedEnvironment:
        """Ask one sandbox for its environment.

        Raises BackendError where the function is no good, RetryableError where AWS does not let it answer.
        """
        await self._client.open()
        loop = asyncio.get_running_loop()
        end, failures = loop.time() + self._ready_seconds, 0
        while True:
            try:
                return await self._spec()
            except RetryableError as error:
                failures += error.billed_seconds > 0 or isinstance(error, CredentialsError)
                if loop.time() >= end or failures >= _START_FAILURES:
                    message = f"Lambda function {self._name} does not answer; the last try: {error.message}"
                    if error.reason in _OWN_FAULTS:
                        raise BackendError(message) from error
                    raise RetryableError(error.reason, message) from error
                log.info("the function is not ready: %s", error.message)
            await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))

    async def invoke(self, request: Request, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        await self._capacity.acquire(priority)
        try:
            credentials = await self._client.credentials(timeout)  # before a request that may be billed
            with answering(timeout):
                event = self._event(request)
                invoked = await self._client.invoke(event, timeout + self.grace_seconds, credentials)
                return self._ack(invoked, request)
        finally:
            self._capacity.release()

    def take_bills(self) -> list[float]:
        bills, self._bills = self._bills, []
        return bills

    async def close(self) -> None:
        await self._client.close()

    async def _spec(self) -> DescribedEnvironment:
        try:
            credentials = await self._client.credentials(_PROBE_SECONDS)
            invoked = await self._client.invoke(self._probe, _PROBE_SECONDS, credentials)
            status, body, _, report = self._read(invoked)
        except RetryableError as error:
            if error.billed_seconds:
                self._bills.append(error.billed_seconds)
            if error.reason == "function_error":  # its settings are wrong, and stay wrong at every try
                raise BackendError(f"Lambda function {self._name} cannot start: {error.message}") from error
            raise
        self._bills.append(lambda_report.paid_seconds(report, invoked.wall_seconds))
        if status != 200:
            raise read_failure(status, body, 0.0)
        if report and report.memory_mib != self._settings.memory_mib:
            raise FatalError(
                f"spec.backend.lambda.memoryMiB: {self._settings.memory_mib}; function {self._name} has "
                f"{report.memory_mib}, so costs would be wrong; set memoryMiB to that or change the function"
            )
        spec = read_spec(body, f"Lambda function {self._name}")
        if spec.id != self._environment:
            raise FatalError(
                f"spec.environment.id: {self._environment!r}; function {self._name} plays "
                f"{spec.id!r}; change its NITRO_ENVIRONMENT or name another function"
            )
        if spec.envs not in (None, self._envs):
            raise FatalError(
                f"spec.environment.envsPerActor: {self._envs}; function {self._name} has {spec.envs!r}; set "
                "envsPerActor, or envs in the function's NITRO_ENVIRONMENT, to the same value"
            )
        return spec

    def _event(self, request: Request) -> Payload:
        """The event of a rollout, with the weights where no Redis has them.

        Raises:
            FatalError: it is larger than Lambda takes.
        """
        prefix = self._prefix(self._cache, request.weights_key) if self._cache else self._plain
        event = Payload(prefix, b'"request":"' + base64.b64encode(request.encode()) + b'"}')
        if event.size > payload_rules.LIMIT_BYTES:
            size = event.size // 4 * 3
            raise FatalError(
                payload_rules.too_large("a request with weights and end state", size, "lower hiddenSizes")
            )
        return event

    def _prefix(self, cache: MemoryCache, weights_key: str) -> Prefix:
        """How the events of one weights version begin: with the weights."""
        prefix = self._prefixes.get(weights_key)
        if prefix is None:
            try:
                weights = base64.b64encode(cache.weights(weights_key))
            except KeyError:
                raise RetryableError("weights_missing", f"{weights_key} is not kept any more") from None
            prefix = Prefix(self._plain.text + b'"weights":"' + weights + b'",')
            while len(self._prefixes) > 1:  # this one and the one before
                del self._prefixes[next(iter(self._prefixes))]
            self._prefixes[weights_key] = prefix
        return prefix

    def _ack(self, invoked: Invoked, request: Request) -> Ack:
        """The acknowledgement in an answer, after its fragment was put into the cache."""
        status, body, fragment, report = self._read(invoked)
        if status == 413:
            text = (read_object(body) or {}).get("error")
            raise FatalError(
                f"spec.environment.rolloutLength: {text}; lower rolloutLength, or set "
                "spec.backend.lambda.transport: Redis"
            )
        try:
            if status != 200:
                raise read_failure(status, body, invoked.wall_seconds)
            ack = read_ack(body, invoked.wall_seconds)
            ack = dataclasses.replace(ack, found_ready=not ack.cold_start)
            if self._cache is not None:
                self._cache.put(request.result_key, _fragment(fragment, invoked.wall_seconds))
        except RetryableError as error:
            if report is not None:
                error.billed_seconds, error.estimated = report.billed_seconds, False
            raise
        if report is None:
            # The init phase is billed too, and only the learner's own clock measures it.
            guess = ack.wall_seconds if ack.cold_start else ack.seconds["total"]
            return dataclasses.replace(ack, reported_seconds=guess, estimated=True)
        self._watch_memory(report)
        return dataclasses.replace(ack, reported_seconds=report.billed_seconds)

    def _read(self, invoked: Invoked) -> tuple[int, object, object, InvocationReport | None]:
        """The function's own status, body and fragment, and the invocation's report.

        Raises RetryableError or FatalError where Lambda refused or the invocation failed.
        """
        if invoked.status == 404 and self._created_elsewhere:
            raise RetryableError("not_ready", f"there is no function {self._name}; the operator makes it")
        if invoked.status != 200:
            raise lambda_errors.refusal(invoked.status, invoked.error_type, invoked.body, self._name)
        report = lambda_report.parse(invoked.log)
        if invoked.function_error:
            raise lambda_errors.failure(invoked.body, report, invoked.wall_seconds)
        answer = read_object(invoked.body)
        billed = lambda_report.paid_seconds(report, invoked.wall_seconds)
        if answer is not None and answer.get("status") == 401:
            # It is paid for, but it is no try of a slot: only time helps, or nothing does.
            self._bills.append(billed)
            if self._created_elsewhere:
                text = f"function {self._name} refuses the token; the operator gives it the job's new one"
                raise RetryableError("not_ready", text)
            raise FatalError(
                f"Lambda function {self._name} refuses the token; set the variable NITRO_TOKEN to the one "
                "whose SHA-256 is the function's NITRO_TOKEN_SHA256, or remove that from the function"
            )
        if answer is None or type(answer.get("status")) is not int:
            raise RetryableError(
                "bad_answer",
                f"function {self._name} answered {excerpt(invoked.body)}; is it the actor's image?",
                billed,
                estimated=report is None,
            )
        return answer["status"], answer.get("body"), answer.get("fragment"), report

    def _watch_memory(self, report: InvocationReport) -> None:
        if not self._warned and report.used_mib >= _NEARLY_FULL * report.memory_mib:
            self._warned = True
            log.warning(
                "a sandbox used %d of the function's %d MiB; raise spec.backend.lambda.memoryMiB",
                report.used_mib,
                report.memory_mib,
            )


def _fragment(text: object, wall: float) -> bytes:
    try:
        return parcel.unpack(text, "fragment")
    except wire.WireError as error:
        raise RetryableError("bad_answer", str(error), wall) from error
