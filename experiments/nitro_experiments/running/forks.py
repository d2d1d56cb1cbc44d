"""A process that has imported what trains, and trains each run in a fork of itself.

    python -m nitro_experiments.running.forks SOCKET

The imports take longer than a short run. A fork is a process of its own: what it does, and how it ends,
reaches no other run, and it begins with what every fresh process begins with. Nothing is computed here, so
there are no threads and no GPU that a fork could not take over.

It prints a line as soon as it listens, and imports then. `fork_client.py` is the other side: it sends the
command line with its own standard output and error, and then numbers of signals. It gets the fork's process
id, and at the end its status as `os.waitpid` has it, each in eight bytes. Where it goes away, the fork is
killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import selectors
import signal
import socket
import sys
from importlib import import_module

_PRELOADED = (
    "matplotlib.backends.backend_agg",
    "nitro_learner.backends.local",
    "nitro_learner.cli.train",
    "nitro_learner.run.metrics",
    "nitro_learner.run.session",
    "nitro_learner.run.views.plot",
    "nitro_learner.run.views.table",
)
_COMMAND_BYTES = 2**16


def main() -> None:
    """Serve; in a fork, do what `python -m nitro_learner` does with its words, which leaves by SystemExit."""
    sys.argv[1:] = _ForkServer(sys.argv[1]).serve()
    runpy.run_module("nitro_learner", run_name="__main__", alter_sys=True)


class _ForkServer:
    """Forks for those who connect to a Unix socket."""

    def __init__(self, path: str) -> None:
        self._clients: dict[socket.socket, int] = {}
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen()
        self._ended, self._written = socket.socketpair()
        for end in (self._ended, self._written):
            end.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written
        print("ready", flush=True)

    def serve(self) -> list[str]:
        """Fork for ever, and in each fork return its command line."""
        for name in _PRELOADED:
            import_module(name)
        gc.freeze()  # a fork shares the memory of what is here, as long as no collection writes to it
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    if (command := self._fork()) is not None:
                        return command
                elif key.fileobj is self._ended:
                    self._reap()
                elif isinstance(key.fileobj, socket.socket):
                    self._signal(key.fileobj)

    def _fork(self) -> list[str] | None:
        """Fork for a new client. Return the command line in the fork, else None."""
        client = self._listening.accept()[0]
        data, streams, _, _ = socket.recv_fds(client, _COMMAND_BYTES, 2)
        if len(streams) < 2:  # it has ended already
            client.close()
            return None
        process = os.fork()
        if process == 0:
            self._leave(client, streams)
            return data.decode(errors="surrogateescape").split("\0")
        for stream in streams:
            os.close(stream)
        self._clients[client] = process
        self._selector.register(client, selectors.EVENT_READ)
        _send(client, process)
        return None

    def _leave(self, client: socket.socket, streams: list[int]) -> None:
        """Become a process as if it had just been started, with these streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in zip((1, 2), streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        self._selector.close()
        for end in (client, *self._clients, self._listening, self._ended, self._written):
            end.close()

    def _signal(self, client: socket.socket) -> None:
        """Give a client's signals to its fork."""
        if client not in self._clients:  # it was told of the end a moment ago
            return
        numbers = b""
        with contextlib.suppress(OSError):
            numbers = client.recv(16)
        for number in numbers or bytes([signal.SIGKILL]):
            os.kill(self._clients[client], number)  # it is not reaped yet, so the id is its own
        if not numbers:
            self._selector.unregister(client)

    def _reap(self) -> None:
        """Tell of forks that have ended."""
        with contextlib.suppress(BlockingIOError):
            while self._ended.recv(64):
                pass
        for client, process in list(self._clients.items()):
            pid, status = os.waitpid(process, os.WNOHANG)
            if pid:
                del self._clients[client]
                with contextlib.suppress(KeyError):
                    self._selector.unregister(client)
                _send(client, status)
                client.close()


def _send(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody wants to know it any more
        client.sendall(number.to_bytes(8, "little"))


if __name__ == "__main__":
    main()
