"""A stand-in for AWS Lambda's control plane: moto's server, with what it lacks and the troubles that AWS has.

moto keeps functions, versions, aliases, tags, roles and reserved concurrency. Here are added: provisioned
concurrency, functions that take a while to be made, refusals, and a service that does not answer.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

REGION = "us-east-2"
IMAGE = f"123456789012.dkr.ecr.{REGION}.amazonaws.com/nitro-actor:0.1.0"
ROLE = "arn:aws:iam::123456789012:role/nitro-actor"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret"}

Environ = dict[str, Any]
Start = Callable[..., Any]

_PROVISIONED = re.compile(r"/2019-09-30/functions/([^/]+)/provisioned-concurrency")
_INVOCATION = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_FUNCTION = re.compile(r"/2015-03-31/functions/([^/]+)/?$")


@dataclass
class Refusal:
    """An answer that AWS gives in place of the real one."""

    status: int
    code: str
    message: str


@dataclass(eq=False)
class FakeAws:
    """The service. `refuse` and `pending_looks` may be changed while it runs."""

    url: str = ""
    calls: list[str] = field(default_factory=list)
    """Method and path of every request."""
    refuse: Callable[[str, str], Refusal | None] = lambda method, path: None  # noqa: ARG005
    before_answer: Callable[[str, str], None] = lambda method, path: None  # noqa: ARG005
    """Called when a request has been carried out and nothing of the answer was sent."""
    hold: threading.Event | None = None
    """Requests are answered only when it is set, or after a minute."""
    pending_looks: int = 0
    """A new or changed function is shown so often as being worked on."""
    failed_state: tuple[str, str] | None = None
    """StateReasonCode and StateReason of functions that could not be made."""
    provisioned: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    """What functions answer a health invocation; a real front is tests/support/lambda_front."""
    _changing: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def client(self) -> Any:
        """A client of one's own, as a person with the AWS console."""
        return self._client("lambda")

    def make_role(self, arn: str = ROLE) -> None:
        """A role that Lambda may assume: CreateFunction asks for one."""
        trust = {"Statement": {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}}
        iam = self._client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):  # moto forgets nothing in one process
            iam.create_role(RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=json.dumps(trust))

    @functools.cache  # noqa: B019 - one for the whole run: to make one takes a tenth of a second
    def _client(self, service: str) -> Any:
        session = boto3.session.Session(*CREDENTIALS.values(), region_name=REGION)
        return session.client(service, endpoint_url=self.url)

    def functions(self) -> list[str]:
        return [one["FunctionName"] for one in self.client().list_functions()["Functions"]]

    def wsgi(self, moto: Any) -> Callable[[Environ, Start], Iterable[bytes]]:
        def serve(environ: Environ, start: Start) -> Iterable[bytes]:
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            with self._lock:
                self.calls.append(f"{method} {path}")
            if self.hold is not None:
                self.hold.wait(120)
            refusal = self.refuse(method, path)
            if refusal is not None:
                return _answer(
                    start, refusal.status, {"Type": "User", "Message": refusal.message}, refusal.code
                )
            if found := _INVOCATION.match(path):
                return _answer(start, 200, self.answers.get(found[1], {"status": 500}))
            if found := _PROVISIONED.match(path):
                return self._provision(method, found[1], environ, start)
            answer = self._watched(moto, method, path, environ, start)
            self.before_answer(method, path)
            return answer

        return serve

    def _watched(self, moto: Any, method: str, path: str, environ: Environ, start: Start) -> Iterable[bytes]:
        if method in ("POST", "PUT") and "/functions" in path and "invocations" not in path:
            name = path.split("/functions/")[1].split("/")[0] if "/functions/" in path else "new"
            self._changing[name] = self.pending_looks
        found = _FUNCTION.match(path)
        if method == "DELETE" and found:
            self.provisioned.pop(found[1], None)
        if method != "GET" or not found:
            return moto(environ, start)  # type: ignore[no-any-return]
        return self._slow(moto, found[1], environ, start)

    def _slow(self, moto: Any, name: str, environ: Environ, start: Start) -> Iterable[bytes]:
        """GetFunction, which tells what AWS is still at work on."""
        told: dict[str, Any] = {}

        def keep(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            told.update(status=status, headers=headers)

        body = b"".join(moto(environ, keep))
        if told["status"].startswith("200"):
            answer = json.loads(body)
            left = self._changing.pop("new", self._changing.get(name, 0))
            if left:
                answer["Configuration"]["State"] = "Pending"
                self._changing[name] = left - 1
            elif self.failed_state is not None:
                code, reason = self.failed_state
                answer["Configuration"].update(State="Failed", StateReasonCode=code, StateReason=reason)
            body = json.dumps(answer).encode()
        headers = [(k, v) for k, v in told["headers"] if k.lower() != "content-length"]
        start(told["status"], [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _provision(self, method: str, name: str, environ: Environ, start: Start) -> Iterable[bytes]:
        if method == "PUT":
            length = int(environ.get("CONTENT_LENGTH") or 0)
            count = json.loads(environ["wsgi.input"].read(length))["ProvisionedConcurrentExecutions"]
            self.provisioned[name] = {
                "RequestedProvisionedConcurrentExecutions": count,
                "AvailableProvisionedConcurrentExecutions": 0,
                "AllocatedProvisionedConcurrentExecutions": 0,
                "Status": "IN_PROGRESS",
                "LastModified": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+0000"),
            }
            return _answer(start, 202, self.provisioned[name])
        if name not in self.provisioned:
            missing = {"Type": "User", "message": "No Provisioned Concurrency Config found"}
            return _answer(start, 404, missing, "ProvisionedConcurrencyConfigNotFoundException")
        if method == "DELETE":
            del self.provisioned[name]
            return _answer(start, 204, None)
        return _answer(start, 200, self.provisioned[name])


def _answer(start: Start, status: int, body: Any, error: str = "") -> Iterable[bytes]:
    data = b"" if body is None else json.dumps(body).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
    start(f"{status} told", [*headers, *([("x-amzn-ErrorType", error)] if error else [])])
    return [data]


@contextmanager
def fake_aws() -> Iterator[FakeAws]:
    """The service on a free port of this machine, for as long as the block lasts."""
    aws = FakeAws()
    moto = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, aws.wsgi(moto), threaded=True, request_handler=MotoRequestHandler)
    aws.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    aws.make_role()
    try:
        yield aws
    finally:
        server.shutdown()
        thread.join(10)


def lambda_backend(aws: FakeAws, **changes: Any) -> dict[str, Any]:
    """spec.backend of a job whose function is kept by the stand-in."""
    function = {
        "image": IMAGE,
        "roleArn": ROLE,
        "endpointUrl": aws.url,
        "credentialsSecret": "aws",
        **changes,
    }
    return {"type": "Lambda", "lambda": {key: value for key, value in function.items() if value is not None}}


def secret(name: str, **entries: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": entries}
