"""The check that an actor makes of the environment in its image, when a learner asks for it"""

import json
import os
import secrets
import threading
from dataclasses import asdict
from pathlib import Path

from nitro_actor.answers import Answer, RefusedError
from nitro_actor.check_process import CheckProcess, Record
from nitro_actor.logs import log

SECONDS = 5.0
"""Time of the check, once its copy of the environment is built. Nobody waits for it."""
_CGROUP = Path("/sys/fs/cgroup")
_ALL = "all of it"


class OwnCheck:
    """The check of this process's environment, in a process of its own, once.

    Args:
        actors: in this container, which share its memory.
    """

    def __init__(self, actors: int = 1) -> None:
        self._actors = actors
        self._id = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._began = False
        self._process: CheckProcess | None = None
        self._record: Record | None = None

    def answer(self, id_: str) -> Answer:
        """Begin the check at the first call, and say what it has told once it has ended.

        Args:
            id_: of the check that is asked for; empty begins one.

        Raises:
            RefusedError: that check is another actor's.
        """
        if id_ and id_ != self._id:
            raise RefusedError(421, "other_actor", "another actor makes this check")
        with self._lock:
            if not self._began:
                self._began = True
                threading.Thread(target=self._run, name="check", daemon=True).start()
        return 200, {"id": self._id, "record": None if self._record is None else asdict(self._record)}

    def close(self) -> None:
        """End the check, which the actor may not outlive."""
        with self._lock:
            self._began = True
            if self._process is not None:
                self._process.close()

    def _run(self) -> None:
        self._record = record = self._made()
        log("checked", lines=len(record.lines), died=record.died, call=record.call)

    def _made(self) -> Record:
        if not has_room(self._actors):
            return _left("the actor's container has no memory for one more copy of the environment")
        settings = {**json.loads(os.environ.get("NITRO_ENVIRONMENT", "")), "envs": 1}
        try:
            with self._lock:
                self._process = process = CheckProcess(json.dumps(settings), SECONDS, os.environ)
        except OSError as error:
            return _left(f"its process cannot be started: {error}")
        return process.whole()


def _left(why: str) -> Record:
    """The record of a check that was not made."""
    return Record([json.dumps({"left": _ALL, "why": why}), json.dumps({"end": True})])


def has_room(actors: int, cgroup: Path = _CGROUP) -> bool:
    """Whether the container's memory has room for one more copy, as large as an actor: the kernel would end
    the whole container otherwise.

    Args:
        actors: that run in it.
        cgroup: of the container, version 2; without one nothing is known, and there is room.
    """
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        lines = (cgroup / "memory.stat").read_text().splitlines()
    except OSError:
        return True
    files = dict(line.split() for line in lines).get("inactive_file", "0")
    used -= int(files)  # the kernel drops what it only keeps of files
    return limit == "max" or int(limit) - used > used / actors
