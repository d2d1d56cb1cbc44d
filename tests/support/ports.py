"""Ports of loopback that nobody listens on."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """So many different ones. Whoever is quicker may still take one before it is used."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def free_port() -> int:
    """One."""
    return free_ports(1)[0]
