"""Waiting for a cluster: requests that are tried again, and what a job waits for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nitro_learner.backends.base import BackendError
from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs, why

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_SILENCE_SECONDS = 600.0
"""How long the API server may give no answer."""
_WAIT_SECONDS = 60.0
"""After so long it is said what a job waits for."""


class RetriedJobs:
    """The jobs of a namespace. A request that may pass is tried again, with growing random pauses.

    Every method raises ClusterError where the request is refused, and BackendError where there was no answer
    for long, or this user may not do it.
    """

    def __init__(self, jobs: NamespaceJobs) -> None:
        self._jobs = jobs
        self.namespace = jobs.namespace

    async def list(self) -> list[Job]:
        return await self._asked(self._jobs.list)

    async def find(self, name: str) -> Job | None:
        return await self._asked(self._jobs.find, name)

    async def create(self, job: Mapping[str, Any]) -> None:
        """Make a job. One that has its name already stays: an answer to an earlier try may have been lost."""
        try:
            await self._asked(self._jobs.create, job)
        except ClusterError as error:
            if error.status != 409:
                raise

    async def change(self, name: str, spec: Mapping[str, Any]) -> None:
        await self._asked(self._jobs.change, name, spec)

    async def delete(self, job: Job) -> None:
        await self._asked(self._jobs.delete, job)

    async def cluster_version(self) -> str:
        return await self._asked(self._jobs.cluster_version)

    async def _asked(self, request: Callable[..., Answer], *arguments: Any) -> Answer:
        began, failures = time.monotonic(), 0
        while True:
            try:
                return await asyncio.to_thread(request, *arguments)
            except ClusterError as error:
                if error.status == 401 and not failures:
                    self._jobs.connect()
                elif error.status == 401 or (error.status == 403 and "quota" not in str(error)):
                    raise BackendError(str(error)) from None
                elif not error.passing:
                    raise
                if time.monotonic() - began > _SILENCE_SECONDS:
                    raise BackendError(f"{error}. The jobs on the cluster go on.") from None
                failures += 1
            await asyncio.sleep(backoff(failures))


class Waits:
    """Say once what a job waits for, when that has lasted some time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._why, self._since = "", 0.0

    def look(self, job: Job) -> None:
        """Take the newest state of the job."""
        phase = (job.get("status") or {}).get("phase")
        reason = "" if phase == "Running" else why(job, "Ready")
        if not phase:
            reason = "no operator has looked at it yet; does one run?"
        if reason != self._why:
            self._why, self._since = reason, time.monotonic()
        elif reason and time.monotonic() - self._since > _WAIT_SECONDS:
            logger.warning("%s: %s", self._name, reason)
            self._since = float("inf")
