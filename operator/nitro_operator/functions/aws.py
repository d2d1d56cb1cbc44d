"""Calls of AWS Lambda's API. boto3 blocks, so each runs in a thread of a pool of its own."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.exceptions as failures
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config

from nitro_api.base import matches
from nitro_api.rules.lambda_rules import AWS_URL
from nitro_api.spec.lambda_backend import REFUSED_CREDENTIALS
from nitro_operator import metrics
from nitro_operator.kube.kinds import Object

THREADS = 8
"""Threads for the calls of one server. One that never ends its answers takes none from the others."""
CALL_SECONDS = 90.0
"""Time for a call with all its attempts. READ_SECONDS begins anew with every byte that a server sends."""
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5.0, 10.0, 3
"""Limits of one call: with boto3's jittered pauses between its attempts it ends within a minute."""
INVOKE_SECONDS = 60.0
"""A health invocation may have to start a sandbox first; it is not tried again."""
MAX_CLIENTS = 64
MAX_SERVERS = 64

NO_CREDENTIALS, UNREACHABLE, CLIENT, ENDPOINT = "NoCredentials", "Unreachable", "ClientError", "Endpoint"
NO_LEASE = "NoLease"
"""Codes of failures that do not come from AWS."""
EXPIRED = "ExpiredToken"
"""AWS's code for expired credentials. It is also used if botocore refreshes credentials and gets expired
ones."""


_COMMON = REFUSED_CREDENTIALS | {
    "AccessDeniedException",
    "AccessDenied",
    "ThrottlingException",
    "InternalFailure",
}
"""Codes that all of AWS's services have."""


class AwsError(Exception):
    """AWS refused a call, or could not be reached. `code` is AWS's own, or one of those above."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Access:
    """Region, endpoint and credentials for Lambda."""

    region: str
    endpoint_url: str | None
    credentials: tuple[str, str, str | None] | None = field(repr=False)
    """Key id, secret key and session token; None = what the process has (IRSA, pod identity, environment)."""


class _Server:
    """The threads for the calls of one server, and its calls that hold one although nobody waits for them."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="aws")
        self._calls: list[Future[Object]] = []
        self._overdue: list[Future[Object]] = []

    @property
    def idle(self) -> bool:
        """Whether no call holds a thread."""
        return all(call.done() for call in self._calls)

    async def call(self, operation: str, call: Callable[[float], Object]) -> Object:
        """Make a call in a thread, and give it the time at which it is overdue. Raises AwsError."""
        self._overdue = [earlier for earlier in self._overdue if not earlier.done()]
        if len(self._overdue) >= THREADS:
            raise AwsError(operation, UNREACHABLE, "the answers to earlier calls are still incomplete")
        work = self.threads.submit(call, time.monotonic() + CALL_SECONDS)
        self._calls = [*(earlier for earlier in self._calls if not earlier.done()), work]
        try:
            async with asyncio.timeout(CALL_SECONDS):  # wait_for can swallow a cancellation, on Python 3.11
                return await asyncio.wrap_future(work)
        except TimeoutError as error:
            text = f"the answer is still incomplete after {CALL_SECONDS:.0f} s"
            raise AwsError(operation, UNREACHABLE, text) from error
        finally:
            if not work.done():
                self._overdue.append(work)


class Aws:
    """Clients by access, and the threads that they block."""

    def __init__(self, may_write: Callable[[], bool] = lambda: True) -> None:
        """`may_write`: whether this process may change anything, see kube/lease.py. Threads call it."""
        self._may_write = may_write
        self._servers: dict[str | None, _Server] = {}  # by the host of an endpointUrl; None: AWS
        self._thread = threading.local()
        # One session for all clients: each session keeps its own ten megabytes of AWS's model of Lambda.
        self._session = boto3.session.Session()
        self._making = threading.Lock()  # to make clients from one session is not thread-safe
        self._clients: dict[tuple[Access, bool], Any] = {}

    async def call(self, access: Access, operation: str, **arguments: Any) -> Object:
        """Make one call, by its name in boto3. For Invoke, the answer's payload is read. Raises AwsError."""
        try:
            server = self._server(access, operation)
            answer = await server.call(operation, partial(self._call, access, operation, arguments))
        except AwsError as error:
            metrics.AWS_REQUESTS.labels(operation, error.code).inc()
            raise
        metrics.AWS_REQUESTS.labels(operation, "ok").inc()
        return answer

    def close(self) -> None:
        """Start no more calls. The process ends after its running calls, unless it is killed before."""
        for server in self._servers.values():
            server.threads.shutdown(wait=False, cancel_futures=True)

    def _server(self, access: Access, operation: str) -> _Server:
        host = urlsplit(access.endpoint_url or "").hostname
        if host not in self._servers:
            if len(self._servers) >= MAX_SERVERS:  # where jobs may name any host
                idle = [name for name, server in self._servers.items() if server.idle]
                if not idle:
                    raise AwsError(
                        operation, UNREACHABLE, f"calls to {MAX_SERVERS} other servers have not ended"
                    )
                self._servers.pop(idle[0]).threads.shutdown(wait=False)
            self._servers[host] = _Server()
        return self._servers[host]

    def _call(self, access: Access, operation: str, arguments: Object, until: float) -> Object:
        self._thread.until = until
        try:
            try:
                client = self._client(access, invokes=operation == "invoke")
            except ValueError as error:  # botocore is stricter with hosts than the job's schema
                raise AwsError(operation, ENDPOINT, str(error)) from error
            answer: Object = getattr(client, operation)(**arguments)
            if operation == "invoke":
                answer["Payload"] = answer["Payload"].read()
            return answer
        except failures.ClientError as error:
            raise _refusal(operation, access, client, error) from error
        except (
            failures.NoCredentialsError,
            failures.PartialCredentialsError,
            failures.CredentialRetrievalError,
            failures.TokenRetrievalError,
        ) as error:
            raise AwsError(operation, NO_CREDENTIALS, str(error)) from error
        except RuntimeError as error:  # from botocore: the refreshed credentials have expired too
            raise AwsError(operation, EXPIRED, str(error)) from error
        except (failures.ConnectionError, failures.HTTPClientError) as error:
            raise AwsError(operation, UNREACHABLE, str(error)) from error
        except failures.BotoCoreError as error:
            # Its text may quote an argument, and with it the environment's passwords.
            raise AwsError(operation, CLIENT, type(error).__name__) from error

    def _client(self, access: Access, *, invokes: bool) -> Any:
        with self._making:
            client = self._clients.get((access, invokes))
            if client is None:
                if len(self._clients) >= MAX_CLIENTS:  # rotated credentials leave their clients behind
                    del self._clients[next(iter(self._clients))]
                client = self._clients[access, invokes] = self._new_client(access, invokes=invokes)
            return client

    def _new_client(self, access: Access, *, invokes: bool) -> Any:
        key, secret, token = access.credentials or (None, None, None)
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=INVOKE_SECONDS if invokes else READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1 if invokes else ATTEMPTS},
            max_pool_connections=THREADS,
        )
        client = self._session.client(
            "lambda",
            region_name=access.region,
            endpoint_url=access.endpoint_url,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=config,
        )
        client.meta.events.register("before-send.lambda", self._check)  # before each attempt
        return client

    def _check(self, request: AWSPreparedRequest, event_name: str, **_: object) -> None:
        operation = event_name.rpartition(".")[2]
        if time.monotonic() > self._thread.until:  # nobody waits for it, and others have written since
            raise AwsError(operation, UNREACHABLE, "no attempt is begun that would be overdue")
        if request.method != "GET" and not self._may_write():
            raise AwsError(operation, NO_LEASE, "this operator holds no Lease now, so it changes nothing")


def _refusal(operation: str, access: Access, client: Any, error: failures.ClientError) -> AwsError:
    """The error of a refused call. A job may name another server than AWS: of its answer only a code of
    Lambda's API, and then the sentence, or the HTTP status is passed on."""
    told = error.response.get("Error", {})
    code, message = str(told.get("Code", "Unknown")), str(told.get("Message", ""))
    known = {shape.name for shape in client.meta.service_model.error_shapes} | _COMMON
    if access.endpoint_url is None or matches(AWS_URL, access.endpoint_url) or code in known:
        return AwsError(operation, code, message)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return AwsError(operation, f"HTTP{status}", "the endpoint does not answer as AWS Lambda does")
