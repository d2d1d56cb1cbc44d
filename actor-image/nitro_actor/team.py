"""Several actors in one pod: each is a process of its own, behind one server that hands out requests."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from nitro_actor.answers import Answer, RefusedError
from nitro_actor.base_service import BaseService
from nitro_actor.logs import log

_POLL_SECONDS = 0.05
_PROBE_SECONDS = 5.0
_END_SECONDS = 10.0
"""Seconds that an actor process has to end after it was terminated."""


class _Member:
    """One actor process."""

    def __init__(self) -> None:
        variables = {**os.environ, "NITRO_ACTORS": "1", "NITRO_HOST": "127.0.0.1", "PORT": "0"}
        command = [sys.executable, "-m", "nitro_actor.server"]
        # An environment may print bytes that are no text.
        self.process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
        self._listening = threading.Event()
        self._port = 0
        threading.Thread(target=self._read, name="output", daemon=True).start()

    def ready(self) -> bool:
        """Wait until the process takes requests; False if it ends before that."""
        while self.process.poll() is None:
            if self._listening.wait(_POLL_SECONDS):
                try:
                    if self.ask("GET", "/readyz", None, {}, _PROBE_SECONDS)[0] == 200:
                        return True
                except OSError:
                    pass
                time.sleep(_POLL_SECONDS)
        return False

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float | None
    ) -> Answer:
        """Make one HTTP exchange. Raises OSError if the process breaks it off."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            reply: dict[str, Any] = json.loads(answer.read())
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()
        return answer.status, reply

    def _read(self) -> None:
        """Forward the process's output; its first line says where the process listens."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self._listening.is_set():
                # Where nobody takes it, the process must not wait for this thread to read on.
                with contextlib.suppress(OSError):
                    print(line, end="", flush=True)
            else:
                self._port = int(json.loads(line)["port"])
                self._listening.set()


class Team(BaseService):
    """The service of a pod with several actors. It has no environment itself.

    A process may end because its environment crashed or hung. It is started again, and its request is broken
    off, as in a pod of one actor. A process that ends before it is ready ends the pod.

    Args:
        token: the token that requests must carry; None if they need no token.
        actors: number of processes.
    """

    what = "pod"

    def __init__(self, token: str | None, actors: int) -> None:
        super().__init__(token, actors)
        self._actors = actors
        self._members: list[_Member] = []
        self._free: set[int] = set()
        self._started: set[int] = set()
        self._change = threading.Condition()
        self._failed = False

    def serve(self) -> int:
        """Run the actors until `drain`. Returns the exit code: 1 if one cannot be started."""
        self._members = [_Member() for _ in range(self._actors)]
        for index in range(self._actors):
            threading.Thread(target=self._tend, args=(index,), name=f"actor {index}", daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: self._failed or (self.draining and self.unanswered == 0))
        self._own_check.close()
        for member in self._members:
            member.process.terminate()
        for member in self._members:
            try:
                member.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                member.process.kill()
        return 1 if self._failed else 0

    def woken(self) -> None:
        with self._change:
            self._change.notify_all()

    def print_stacks(self, *_: object) -> None:
        """Have every actor print where its main thread stands."""
        for member in self._members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGUSR1)

    def rollout(self, read_body: Callable[[], bytes]) -> Answer:
        """Let a free actor work on a rollout request. If none is free, refuse it before its body is read."""
        self._require_ready()
        with self._change:
            if not self._free:
                raise RefusedError(503, "busy", f"all {self._actors} actors of this pod work")
            index = self._free.pop()
        member = self._members[index]
        try:
            # An actor ends its process if a rollout hangs, so no time-out is needed here.
            answer = member.ask("POST", "/v1/rollout", read_body(), self._headers(), None)
        except OSError as error:
            raise ConnectionError("the actor broke the request off") from error
        finally:
            with self._change:
                if member is self._members[index] and member.process.poll() is None:
                    self._free.add(index)
        return answer

    def _tend(self, index: int) -> None:
        """Keep one actor running."""
        while True:
            member = self._members[index]
            if not member.ready():
                break
            with self._change:
                self._started.add(index)
                all_started = len(self._started) == self._actors
            # The pod takes requests from when every actor was ready once: an end before that ends the pod.
            if all_started and self._spec is None:
                try:
                    status, spec = member.ask("GET", "/v1/spec", None, self._headers(), _PROBE_SECONDS)
                except OSError:
                    continue
                self._spec = spec if status == 200 else None
            with self._change:
                self._free.add(index)
                self._change.notify_all()
            code = member.process.wait()
            with self._change:
                self._free.discard(index)
            if self.draining:
                return
            log("actor ended", level="warning", code=code)
            self._members[index] = _Member()
        if not self.draining:
            log("refused", level="error", error="an actor process ended before it was ready")
            self._failed = True
            self.woken()

    def _headers(self) -> dict[str, str]:
        token = os.environ.get("NITRO_TOKEN")
        return {"Authorization": f"Bearer {token}"} if token else {}
