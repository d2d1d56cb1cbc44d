"""Several API servers behind one address, as they are of a cluster in service. The first one is ill."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ILL = {"kind": "Status", "reason": "InternalError", "message": "etcdserver: request timed out"}


class Replicas(ThreadingHTTPServer):
    """The first connection reaches the one that is ill, for as long as it lives; all others a sound one."""

    daemon_threads = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Replica)
        self.job = job
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Replica(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Replicas

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.ill = self.server.connections == 1

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps(ILL if self.ill else self.server.job).encode()
        self.send_response(500 if self.ill else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PATCH = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def replicas(job: dict[str, Any]) -> Iterator[Replicas]:
    """They serve one job."""
    with Replicas(job) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
