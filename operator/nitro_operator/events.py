"""Events on the jobs, as `kubectl describe` shows them: posted in the background, best effort.

Not through kopf: it takes every 403 for a passing trouble, so in a namespace that is being deleted it would
try again and log errors about something that is in order.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from nitro_operator.client import ApiError, Kube
from nitro_operator.conditions import Condition
from nitro_operator.kinds import Object
from nitro_operator.names import FIELD_MANAGER

logger = logging.getLogger(__name__)

WAITING_EVENTS = 1000
"""More than these are dropped: an API server that is away must not fill the memory."""
MESSAGE_LENGTH = 1024
"""The API server's limit."""


class EventPoster:
    """Posts one event after the other, so those of a job keep their order."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(WAITING_EVENTS)

    def add(self, job: Object, condition: Condition) -> None:
        """Have a condition told as an event of its job."""
        try:
            self._waiting.put_nowait(_event(job, condition))
        except asyncio.QueueFull:
            logger.warning("too many events are waiting: %s is not posted", condition.reason)

    async def run(self) -> None:
        while True:
            event = await self._waiting.get()
            try:
                await self._kube.create(event)
            except ApiError as error:
                if not error.namespace_terminating:  # nobody will read it: its object is about to go, too
                    logger.warning("an event could not be posted: %s", error)


def _event(job: Object, condition: Condition) -> Object:
    meta = job["metadata"]
    now = datetime.now(UTC)
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": meta["namespace"], "generateName": "nitro-"},
        "involvedObject": {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": "Warning" if condition.warning else "Normal",
        "reason": condition.reason,
        "message": _cut(condition.message or condition.type),
        "action": "Reconcile",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "source": {"component": FIELD_MANAGER},
    }


def _cut(message: str) -> str:
    """Without its middle if it is too long: the cause is said first, the remedy last."""
    half = (MESSAGE_LENGTH - 3) // 2
    return message if len(message) <= MESSAGE_LENGTH else f"{message[:half]}...{message[-half:]}"
