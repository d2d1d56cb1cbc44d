"""Ports of loopback that nobody listens on."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 15_000, 32_000
"""Below the ports that a system gives to outgoing connections, which would take one at any time."""


def free_ports(count: int) -> list[int]:
    """So many different ones, chosen at random because other tests choose at the same time."""
    found: set[int] = set()
    while len(found) < count:
        port = random.SystemRandom().randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    return list(found)


def free_port() -> int:
    """One."""
    return free_ports(1)[0]
