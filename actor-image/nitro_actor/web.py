"""HTTP/1.1 for the actor: requests are read within limits of size and time."""

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nitro_actor import wire
from nitro_actor.answers import RefusedError, failure
from nitro_actor.logs import log
from nitro_actor.service import Service

BODY_SECONDS = 10.0
"""A request must have arrived whole after this time."""

IDLE_SECONDS = 300.0
"""A connection without requests is closed after this time."""


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive. `service` is set on the class that `listen` makes."""

    service: Service
    protocol_version = "HTTP/1.1"
    server_version = "nitro-actor"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer leave in one packet
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self._answer(lambda: self._get(path))

    def do_POST(self) -> None:
        with self.service.answering():
            self._answer(self._post)

    def _get(self, path: str) -> None:
        if path == "/healthz":
            self._send(200, {"status": "alive"})
        elif path == "/readyz":
            self._send(*self.service.ready())
        elif path == "/v1/spec":
            self.service.authorise(self.headers.get("Authorization"))
            self._send(*self.service.spec())
        else:
            raise RefusedError(404, "not_found", f"there is no {path}")

    def _post(self) -> None:
        if self.path != "/v1/rollout":
            raise RefusedError(404, "not_found", f"there is no {self.path}")
        self.service.authorise(self.headers.get("Authorization"))
        self._send(*self.service.rollout(self._body))

    def _answer(self, method: Callable[[], None]) -> None:
        """Run a method and answer what it raises."""
        lengths = self.headers.get_all("Content-Length", [])
        sent = "Transfer-Encoding" in self.headers or any(length != "0" for length in lengths)
        self._body_left = sent or self.command == "POST"
        try:
            method()
        except ConnectionError:
            self.close_connection = True
        except Exception as error:
            status, body = failure(error)
            if not isinstance(error, RefusedError):
                log("refused", level="warning", status=status, **body)
            self._send(status, body)

    def _body(self) -> bytes:
        """The request's body, within limits of size and time."""
        length = ", ".join(self.headers.get_all("Content-Length", []))
        if "Transfer-Encoding" in self.headers or not length.isascii() or not length.isdigit():
            raise RefusedError(
                411, "bad_request", "a request needs a Content-Length and no Transfer-Encoding"
            )
        if int(length) > wire.MAX_BYTES:
            raise RefusedError(413, "bad_request", f"a request may have {wire.MAX_BYTES} bytes, not {length}")
        deadline = time.monotonic() + BODY_SECONDS
        parts, left = [], int(length)
        while left:
            self.connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            try:
                part = self.rfile.read1(min(left, 2**20))
            except TimeoutError:
                raise RefusedError(
                    408, "bad_request", f"the body did not arrive within {BODY_SECONDS:g} s"
                ) from None
            if not part:
                raise ConnectionError("the body is cut")
            parts.append(part)
            left -= len(part)
        self.connection.settimeout(IDLE_SECONDS)
        self._body_left = False
        return b"".join(parts)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        if self._body_left:  # it must not be read as the next request
            self.close_connection = True
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Requests are logged by what became of them, not by their line."""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks up the host's name: without DNS that takes seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, *_: object) -> None:
        """A broken connection is the peer's business; errors of requests have been answered."""


def listen(service: Service, host: str, port: int) -> ThreadingHTTPServer:
    """Accept connections in a thread; port 0 picks a free one."""
    handler = type("Handler", (_Handler,), {"service": service})
    http = _HttpServer((host, port), handler)
    threading.Thread(target=http.serve_forever, name="http", daemon=True).start()
    return http
