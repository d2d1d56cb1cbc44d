"""Events of the jobs, which `kubectl describe` shows. They are posted in the background and may be lost.

kopf does not post them: it repeats a request after every 403. In a namespace that is being deleted it would
log errors, although nothing is wrong.
"""

import asyncio
import logging
from datetime import UTC, datetime

from nitro_api.spec.learner_status import SharingStatus
from nitro_operator.builders import JobView
from nitro_operator.builders.storage import checkpoint_location, run_folder
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.names import FIELD_MANAGER
from nitro_operator.observation import reported
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


class SharingNews:
    """Notices when the agents of one job begin to share policies, or end it."""

    def __init__(self) -> None:
        self._toggles: int | None = None

    def of(self, job: Object) -> Condition | None:
        """The event to post about toggles since the previous call; None if there were none.

        Only the last of several toggles is reported. Toggles before the first call are not news, because this
        operator may have started in the middle of a run.
        """
        raw = reported.section(job, "sharing")
        sharing = SharingStatus.model_validate(raw)
        before, self._toggles = self._toggles, sharing.toggles
        if before is None or sharing.toggles is None or sharing.toggles <= before:
            return None
        reason = "SharingBegan" if sharing.shared else "SharingEnded"
        return Condition("Sharing", bool(sharing.shared), reason, sharing.message or "")


class FormerRunNews:
    """Notices that a job from a backup began anew, beside an older run of its name."""

    def __init__(self) -> None:
        self._seen: str | None = None
        self._looked = False

    def of(self, job: Object, view: JobView | None) -> Condition | None:
        """The event to post about a run that was found since the previous call; None if there is none.

        What was found before the first call is not news, because this operator may have started later.
        """
        folder = reported.section(job, "training").get("formerRun")
        known = not self._looked or folder == self._seen
        self._seen, self._looked = folder, True
        if known or not folder or view is None:
            return None
        place, _, _ = checkpoint_location(view).rpartition(f"/{run_folder(view)}")
        where = f"s3: {place}/{folder}" if place.startswith("s3://") else _in_claim(place, folder)
        return Condition(
            "FormerRun",
            True,
            "FormerRunFound",
            f"this job began anew, and an older run of its name is in {place}, folder {folder}. To go on "
            f"with that run, delete this job and create it with spec.resumeFrom: {{{where}, take: Run}}.",
        )


def _in_claim(place: str, folder: str) -> str:
    return f"claim: {place.removeprefix('pvc/')}, folder: {folder}"
