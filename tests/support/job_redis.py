"""A real Redis with the user file that the operator writes for a job."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import redis

from nitro_learner.backends.redis_server import find_executable
from ports import free_port


@contextlib.contextmanager
def job_redis(secret: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """The URLs of both users, towards a Redis that runs until the block ends.

    Args:
        secret: the data of the job's Secret.
        folder: for its files.
    """
    users, log, port = folder / "users.acl", folder / "redis.log", free_port()
    users.write_text(secret["redis-acl"])
    arguments = ["--port", str(port), "--save", "", "--aclfile", str(users), "--dir", str(folder)]
    with log.open("wb") as output:
        server = subprocess.Popen([find_executable(), *arguments], stdout=output, stderr=output)
    logins = {user: secret[f"redis-{user}-url"].rpartition("@")[0] for user in ("learner", "actor")}
    found = {user: f"{login}@127.0.0.1:{port}/0" for user, login in logins.items()}
    try:
        for _ in range(1200):
            assert server.poll() is None, log.read_text()
            try:
                redis.Redis.from_url(found["learner"]).ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield found
    finally:
        server.terminate()
        server.wait(timeout=120)
