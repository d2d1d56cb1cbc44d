"""The actor's HTTP server: `python -m nitro_actor.server`.

    POST /v1/rollout   one request (see nitro_actor.protocol.request) -> 200 when its fragment is stored
    GET  /v1/spec      the environment's spaces
    GET  /v1/check     what a check of the environment has found, which the first such request begins
    GET  /healthz      the process answers
    GET  /readyz       the environment is built and the actor takes requests

It listens before the environment is built. All environment work happens in the main thread (rendering
contexts and some libraries belong to the thread that made them); connections have threads of their own.
SIGTERM lets the request in flight finish, then the process exits with 0. SIGUSR1 writes to standard error
where the main thread stands. A crash, such as a segmentation fault, writes where each thread stands.

Settings come from environment variables: NITRO_ENVIRONMENT, NITRO_REDIS_URL, NITRO_TOKEN, NITRO_HOST, PORT,
NITRO_TIMEOUT_SECONDS (time limit of a request; a request that exceeds it by far ends the process),
NITRO_ACTORS (the number of actors; with more than one, each is a process of its own behind this server, see
team.py), and NITRO_CODE with NITRO_CODE_SHA256 (the job's code, see entry_points.py).
"""

import faulthandler
import io
import json
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TypeVar

import nitro_actor.startup  # noqa: F401 - before numpy loads
from nitro_actor import entry_points, traces
from nitro_actor.actor import Actor
from nitro_actor.answers import log_uncut
from nitro_actor.base_service import BaseService
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError, NotInstalled
from nitro_actor.logs import log, write_termination_message
from nitro_actor.make_env import make_env, with_kwargs
from nitro_actor.service import Service
from nitro_actor.store import Store
from nitro_actor.team import Team
from nitro_actor.web import listen

_N = TypeVar("_N", int, float)


def main() -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code: 1 if the settings or the environment are wrong."""
    faulthandler.enable()
    # In C: an environment may hang where no Python handler would run. The main thread gets the signal. Only
    # that thread is read: to read the stack of a thread that runs meanwhile may end the process.
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    # What an environment prints must not raise in it, whatever the locale, and a crash must not lose it.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    warnings.showwarning = _log_warning
    try:
        return _run(os.environ.get("NITRO_TOKEN"))
    except (EnvironmentConfigError, ValueError) as error:
        trace = traces.trace(error)
        log_uncut(error, level="error")
        details = {"trace": trace} if trace else {}
        if isinstance(error, NotInstalled):
            details["missing"] = "package"
        log("refused", level="error", error=str(error), **details)
        write_termination_message(str(error))
        return 1


def _run(token: str | None) -> int:
    """Serve until a signal. Returns the exit code."""
    entry_points.find_code()
    actors, port = _number("NITRO_ACTORS", int, 1, 1000), _number("PORT", int, 0, 65535)
    if actors is not None and actors > 1:
        team = Team(token, actors)
        signal.signal(signal.SIGUSR1, team.print_stacks)
        _listen(team, port)
        return team.serve()
    service = Service(token, _number("NITRO_TIMEOUT_SECONDS", float, 0.001, 1e6))
    _listen(service, port)

    def build() -> tuple[Actor, Store]:
        config = EnvironmentConfig.from_json(os.environ.get("NITRO_ENVIRONMENT", ""))
        return Actor(make_env(config), with_kwargs(config)), Store(os.environ.get("NITRO_REDIS_URL", ""))

    service.serve(build)
    log("stopped")
    return 0


def _number(name: str, kind: Callable[[str], _N], least: _N, most: _N) -> _N | None:
    """The number in an environment variable; None if there is none. Raises ValueError."""
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise ValueError(f"{name} is {text!r}; it must be a number from {least} to {most}")
    return value


def _listen(service: BaseService, port: int | None) -> None:
    on_termination(service.drain)
    http = listen(service, os.environ.get("NITRO_HOST") or _any_host(), port or 0)
    print(json.dumps({"event": "listening", "port": http.server_address[1]}), flush=True)


def _any_host() -> str:
    """All addresses of the pod: IPv6 as well, where the system has it."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


def on_termination(action: Callable[[], None]) -> None:
    """Run an action in a thread at every SIGTERM and SIGINT.

    A Python signal handler would not be enough. It runs in the main thread, and while that thread waits for
    its next job, the handler may run only when a job comes. But the interpreter writes a signal's number to
    this socket at once.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach())
    for number in numbers:
        signal.signal(number, lambda *_: None)

    def wait() -> None:
        while True:
            if reader.recv(1)[0] in numbers:
                action()

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _log_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    log(
        "warning", level="warning", error=f"{category.__name__}: {traces.text(message)}"[: traces.MOST_LOGGED]
    )


if __name__ == "__main__":
    sys.exit(main())
