"""Events of the jobs, which `kubectl describe` shows. They are posted in the background and may be lost.

kopf does not post them: it repeats a request after every 403. In a namespace that is being deleted it would
log errors, although nothing is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.names import FIELD_MANAGER
from nitro_operator.observation.words import cut
from nitro_operator.status.conditions import Condition

logger = logging.getLogger(__name__)

WAITING_EVENTS = 1000
"""Most events that wait. More are dropped: an outage of the API server must not fill the memory."""
MESSAGE_LENGTH = 1024
"""The API server's limit."""


class EventPoster:
    """Poster of events, one after the other, so that the events of a job keep their order."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(WAITING_EVENTS)

    def add(self, job: Object, condition: Condition) -> None:
        """Post a condition as an event of its job."""
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
                if not error.namespace_terminating:  # nobody will read it: its object is deleted too
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
        "message": cut(condition.message or condition.type, MESSAGE_LENGTH),
        "action": "Reconcile",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "source": {"component": FIELD_MANAGER},
    }
