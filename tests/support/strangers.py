"""A network neighbour without any credential: `python strangers.py HOST PORT SOURCE HELD SENT`.

It opens connections from one address without pause, and holds so many of them at a time: then each new one
takes the place of its oldest. Each sends some bytes, which are no login. It writes a line at its start and
one when it has opened so many, and ends when its standard input does. It needs nothing but Python.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

_SECONDS = 1.0


def main(host: str, port: int, source: str, held: int, sent: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kept: deque[socket.socket] = deque()
    print("begun", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        client.settimeout(_SECONDS)
        # Without it the client's own system would run out of ports.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            if source:
                client.bind((source, 0))
            client.connect((host, port))
            client.sendall(b"x" * sent)
        kept.append(client)
        if len(kept) == held:
            print("held", flush=True)
        if len(kept) > held:
            kept.popleft().close()


@contextmanager
def strangers(
    port: int, *, held: int, sent: int = 0, sources: int = 4, source: str = "", host: str = "127.0.0.1"
) -> Iterator[None]:
    """Several of them, each with a share of the connections, and from its own address or all from one."""
    arguments = [sys.executable, __file__, host, str(port)]
    processes = [
        Popen(
            [*arguments, source or f"127.9.0.{index + 1}", str(held // sources), str(sent)],
            stdin=PIPE,
            stdout=PIPE,
        )
        for index in range(sources)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    main(sys.argv[1], *(kind(text) for kind, text in zip((int, str, int, int), sys.argv[2:], strict=True)))
