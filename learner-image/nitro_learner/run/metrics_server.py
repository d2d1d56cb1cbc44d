"""The server of the learner's metrics. Strangers that connect to it cannot hold up the training."""

from __future__ import annotations

import socketserver
import threading
from http.server import HTTPServer

from prometheus_client import CollectorRegistry, MetricsHandler

from nitro_api.doors import Door, Rate, doors

PLACES = 16
"""Connections at once. Each has a thread, and a scraper needs one."""
RATE = Rate(burst=32, per_second=2)
"""How fast one address may open them."""
SECONDS = 10.0
"""Time that a client has to ask, and to take the answer."""


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, door: Door, handler: type[MetricsHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = door

    def handle_error(self, *_: object) -> None:
        """Log nothing: a client has left, or takes too long."""


def serve(registry: CollectorRegistry, port: int) -> int:
    """Serve a registry on all interfaces, of IPv4 and of IPv6, in daemon threads. Returns the port.

    Raises:
        OSError: the port is taken.
    """
    # `factory` is declared to give the class itself.
    handler = type("Handler", (MetricsHandler.factory(registry),), {"timeout": SECONDS})
    for door in doors(None, port, places=PLACES, rate=RATE):
        port = door.getsockname()[1]
        server = _Server(door, handler)
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return port
