"""A stand-in for S3 that knows one access key at a time: moto, behind a door."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

BUCKET = "renewed"
_REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message></Error>"


class Door:
    """The store. `accepted` is the access key that it knows, and may be changed."""

    def __init__(self) -> None:
        self.accepted = "OLD"
        self.port = 0

    def client(self) -> Any:
        """A client of one's own."""
        keys = {"aws_access_key_id": self.accepted, "aws_secret_access_key": "any"}
        return boto3.client("s3", "us-east-1", endpoint_url=f"http://127.0.0.1:{self.port}", **keys)

    def names(self) -> set[str]:
        """The keys of all objects."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {item["Key"] for page in pages for item in page.get("Contents", [])}

    def wsgi(self, moto: Any) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if f"Credential={self.accepted}/" in environ.get("HTTP_AUTHORIZATION", ""):
                answered: Iterable[bytes] = moto(environ, start)
                return answered
            start("403 Forbidden", [("Content-Length", str(len(_REFUSED))), ("Connection", "close")])
            return [_REFUSED]

        return answer


@contextmanager
def door(host: str = "127.0.0.1") -> Iterator[Door]:
    """The store with an empty bucket at a free port, for as long as the block lasts."""
    found = Door()
    app = found.wsgi(DomainDispatcherApplication(create_backend_app))
    server = make_server(host, 0, app, threaded=True, request_handler=MotoRequestHandler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    client = found.client()
    client.create_bucket(Bucket=BUCKET)
    for name in found.names():  # moto forgets nothing in one process
        client.delete_object(Bucket=BUCKET, Key=name)
    try:
        yield found
    finally:
        server.shutdown()
        thread.join(10)


def keys(name: str) -> dict[str, str]:
    """The entries of a Secret with this access key."""
    return {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": f"secret-of-{name}"}
