"""Stands for a fork of `forks.py`: it passes signals on, and ends as the fork ends.

    python fork_client.py SOCKET WORD...

Run by path, with the standard library only, so that it starts in milliseconds.
"""

import contextlib
import os
import signal
import socket
import sys

_LOST = 75
"""Where the server has ended: the run goes on from its checkpoint, as the code says for `nitro train`."""


def main() -> int:
    server = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):  # without an answer it is told below
        server.connect(sys.argv[1])
        words = "\0".join(sys.argv[2:]).encode(errors="surrogateescape")
        socket.send_fds(server, [words], [1, 2])
    status = process = _number(server)
    if process is not None:
        # Before there is a fork, a signal ends this process alone, and the server kills the fork at once.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: server.sendall(bytes([number])))
        status = _number(server)
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    if status is None:
        print("the process that starts runs has ended", file=sys.stderr)
        return _LOST
    if os.WIFSIGNALED(status):
        ending = os.WTERMSIG(status)
        if ending != signal.SIGKILL:
            signal.signal(ending, signal.SIG_DFL)
        os.kill(os.getpid(), ending)
    return os.waitstatus_to_exitcode(status)


def _number(server: socket.socket) -> "int | None":
    """The next number that the server sends; None where it has ended."""
    data = b""
    while len(data) < 8:
        try:
            more = server.recv(8 - len(data))
        except OSError:
            return None
        if not more:
            return None
        data += more
    return int.from_bytes(data, "little")


if __name__ == "__main__":
    sys.exit(main())
