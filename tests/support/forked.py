"""Programs that start as forks of a process which has already imported the training's modules.

Their import takes most of a short run's processor time. The standard library's fork server imports them once
for each worker of pytest. A fork has its own arguments, environment, folder, output, signals and exit code.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO
from unittest import mock

# Not among them: what reads the environment when it is imported, as the client of Kubernetes does.
_PRELOADED = [
    "matplotlib.backends.backend_agg",
    "nitro_learner.backends.local",
    "nitro_learner.cli.train",
    "nitro_learner.run.metrics",
    "nitro_learner.run.session",
    "nitro_learner.run.views.plot",
]
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(_PRELOADED)


class Forked:
    """A running program, with the methods of `subprocess.Popen` that tests use. Its output is text."""

    def __init__(
        self, main: Callable[[], object], arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start `main()` with these sys.argv[1:] and os.environ; a module must have `main` by its name."""
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        ends = [Connection(end, readable=False) for end in (out_end, err_end)]
        self._process = _SERVER.Process(
            target=_run, args=(main, list(arguments), dict(environment), str(Path.cwd()), *ends), daemon=True
        )
        # The first start is that of the server, whose libraries read this when they are loaded.
        with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
            self._process.start()
        for end in ends:
            end.close()
        self.stdout = os.fdopen(out, encoding="utf-8")
        self.stderr = os.fdopen(err, encoding="utf-8", errors="backslashreplace")

    @property
    def pid(self) -> int:
        """The number of the process."""
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the number of the signal that ended the process, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same as `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return `returncode`; raises subprocess.TimeoutExpired after `timeout` s."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(sys.argv[0], timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end, and return what was left to read of stdout and stderr; raises TimeoutExpired."""
        outputs = [_Reader(self.stdout), _Reader(self.stderr)]
        self.wait(timeout)
        for output in outputs:
            output.join(timeout)
            if output.is_alive():  # what the process has started may still have its output open
                raise subprocess.TimeoutExpired(sys.argv[0], timeout or 0.0)
        return outputs[0].text, outputs[1].text

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Reader(threading.Thread):
    """Reads a stream to its end, and closes it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.text = ""
        self.start()

    def run(self) -> None:
        if not self._stream.closed:
            with self._stream:
                self.text = self._stream.read()


def _run(
    main: Callable[[], object],
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    out: Connection,
    err: Connection,
) -> None:
    """What the fork does: become a program of its own, and call `main`."""
    assert "torch" in sys.modules, "the fork server has preloaded nothing"
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[1:] = arguments
    for number, end in ((1, out), (2, err)):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdout = os.fdopen(1, "w", closefd=False)  # as buffered as a program's own
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")
    try:
        sys.exit(main())
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
