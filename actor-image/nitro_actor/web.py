"""HTTP/1.1 for the actor: requests are read within limits of size and time, and connections are bounded."""

import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nitro_actor import wire
from nitro_actor.answers import RefusedError, failure, logged
from nitro_actor.base_service import BaseService

HEAD_SECONDS = 10.0
"""The head of a request must have arrived whole this long after its first byte."""

BODY_SECONDS = 10.0
"""The body of a request must have arrived whole this long after its head."""

IDLE_SECONDS = 300.0
"""A connection without requests is closed after this time."""

MOST_CONNECTIONS = 64
"""Connections that are open at once. A further one takes the place of the one that is idle for longest."""

_LENGTH_DIGITS = 20


class _TimedReader(io.RawIOBase):
    """A reader of a connection with a deadline, however slowly the bytes come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0

    def within(self, seconds: float) -> None:
        """Limit the total time of all reads from now on."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, or wait for it. Raises TimeoutError at the deadline."""
        self._connection.settimeout(max(self._deadline - time.monotonic(), 1e-3))
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(IDLE_SECONDS)  # the time-out of the answer


class _Connections:
    """The open connections, of which the idle ones may be closed to make room."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._open = 0
        self._idle: dict[socket.socket, None] = {}
        """Connections that have not sent a complete head of a request; the longest idle one comes first."""

    def admit(self) -> bool:
        """Count one more connection; False where all are busy."""
        with self._lock:
            if self._open >= self._most:
                if not self._idle:
                    return False
                longest = next(iter(self._idle))
                del self._idle[longest]
                # The connection's thread then reads the end of the connection and stops.
                with contextlib.suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)
            self._open += 1
            return True

    def idle(self, connection: socket.socket) -> None:
        """Note that a connection waits for a request."""
        with self._lock:
            self._idle[connection] = None

    def busy(self, connection: socket.socket) -> None:
        """Note that a connection has sent a request."""
        with self._lock:
            self._idle.pop(connection, None)

    def closed(self, connection: socket.socket) -> None:
        """Count one connection less."""
        with self._lock:
            self._idle.pop(connection, None)
            self._open -= 1


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive. `service` and `connections` are set on the class that `listen` makes."""

    service: BaseService
    connections: _Connections
    protocol_version = "HTTP/1.1"
    server_version = "nitro-actor"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer leave in one packet
    timeout = IDLE_SECONDS

    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection)
        self.rfile = self._buffer = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request, then read its head within HEAD_SECONDS and answer it."""
        self.connections.idle(self.connection)
        self._reader.within(IDLE_SECONDS)
        try:
            if not self._buffer.peek(1):
                self.close_connection = True
                return
        except (TimeoutError, ConnectionError):
            self.close_connection = True
            return
        self._reader.within(HEAD_SECONDS)
        super().handle_one_request()

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        if parsed:
            self.connections.busy(self.connection)
        return parsed

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self._answer(lambda: self._get(path, query))

    def do_POST(self) -> None:
        with self.service.answering():
            self._answer(self._post)

    def _get(self, path: str, query: str) -> None:
        if path == "/healthz":
            self._send(200, {"status": "alive"})
        elif path == "/readyz":
            self._send(*self.service.ready())
        elif path == "/v1/spec":
            self.service.authorise(self.headers.get("Authorization"))
            self._send(*self.service.spec())
        elif path == "/v1/check":
            self.service.authorise(self.headers.get("Authorization"))
            self._send(*self.service.check(query.removeprefix("id=")))
        else:
            raise RefusedError(404, "not_found", f"there is no {path}")

    def _post(self) -> None:
        if self.path != "/v1/rollout":
            raise RefusedError(404, "not_found", f"there is no {self.path}")
        self.service.authorise(self.headers.get("Authorization"))
        self._send(*self.service.rollout(self._body))

    def _answer(self, method: Callable[[], None]) -> None:
        """Run a method, and answer with an error if it raises one."""
        lengths = self.headers.get_all("Content-Length", [])
        sent = "Transfer-Encoding" in self.headers or any(length != "0" for length in lengths)
        self._body_left = sent or self.command == "POST"
        try:
            method()
        except ConnectionError:
            self.close_connection = True
        except Exception as error:
            refused = isinstance(error, RefusedError)
            status, body = failure(error) if refused else logged("refused", error, level="warning")
            self._send(status, body)

    def _body(self) -> bytes:
        """The request's body, within limits of size and time."""
        length = ", ".join(self.headers.get_all("Content-Length", []))
        if "Transfer-Encoding" in self.headers or not length.isascii() or not length.isdigit():
            raise RefusedError(
                411, "bad_request", "a request needs a Content-Length and no Transfer-Encoding"
            )
        # Python refuses to read a number of thousands of digits.
        if len(length) > _LENGTH_DIGITS or int(length) > wire.MAX_BYTES:
            raise RefusedError(
                413,
                "bad_request",
                f"a request may have {wire.MAX_BYTES} bytes, not {length[:_LENGTH_DIGITS]}",
            )
        self._reader.within(BODY_SECONDS)
        parts, left = [], int(length)
        while left:
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
        """Log nothing: requests are logged with their results elsewhere."""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler], connections: _Connections) -> None:
        self._connections = connections
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.admit():
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.closed(request)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:  # IPv4 as well, whatever the system's default is
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer's own method is not used: it looks up the host's name, which takes seconds without DNS.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, *_: object) -> None:
        """Log nothing of a broken connection; errors of requests have been answered."""


def listen(service: BaseService, host: str, port: int) -> ThreadingHTTPServer:
    """Accept connections in a thread; port 0 picks a free one, and host `::` is IPv4 as well."""
    connections = _Connections(MOST_CONNECTIONS)
    handler = type("Handler", (_Handler,), {"service": service, "connections": connections})
    http = _HttpServer((host, port), handler, connections)
    threading.Thread(target=http.serve_forever, name="http", daemon=True).start()
    return http
