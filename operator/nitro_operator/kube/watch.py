"""A watch on one kind: every change of its objects, for as long as the process lives.

kopf's streams are not used: tests/integration/test_kopf_streams.py has answers that would end the process.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, Kind, Object
from nitro_operator.kube.names import JOB_LABEL
from nitro_operator.kube.queue import pause

logger = logging.getLogger(__name__)

RECONNECT_SECONDS = 0.1
FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 10.0
GONE = 410
"""Status of the answer when the API server no longer has the events since the given version."""


def selector(kind: Kind) -> dict[str, str]:
    """The query that makes the API server leave out objects that are not Nitro's."""
    return {} if kind is TRAINING_JOB else {"labelSelector": JOB_LABEL}


class Watch:
    """Watch of one kind in one namespace, or in all.

    No event is lost when the connection ends: the next one continues from the last version. If the API
    server no longer has that version, or does not serve the kind, the watch starts again with all existing
    objects. No event tells what was deleted meanwhile, so the watch then asks for a list. It also asks for
    one when it begins, because objects may have been deleted since the list that filled the cache.
    """

    def __init__(
        self,
        kube: Kube,
        kind: Kind,
        namespace: str | None,
        notice: Callable[[Kind, Object], None],
        list_again: Callable[[Kind], None],
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._namespace = namespace
        self._notice = notice
        self._list_again = list_again
        self._version: str | None = None
        self._gap = True
        """Whether deletions may have been missed. True at first: the list that filled the cache is older."""
        self._failures = 0

    async def run(self) -> None:
        """Watch until cancelled. Try again while the API server does not answer."""
        while True:
            try:
                await self._follow()
                await asyncio.sleep(RECONNECT_SECONDS)
            except ApiError as error:
                self._failures += 1
                if error.status in (GONE, 403, 404) and self._version is not None:
                    self._version, self._gap = None, True
                    if error.status != GONE:
                        self._list_again(self._kind)  # at once: the next watch may be long in coming
                self._tell(error)
                await asyncio.sleep(pause(self._failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS))

    async def _follow(self) -> None:
        """Read one connection until the API server ends it."""
        query = selector(self._kind)
        events = self._kube.watch(self._kind, self._namespace, self._version, self._begun, **query)
        async with aclosing(events):
            async for event in events:
                self._failures = 0
                if event["type"] != "BOOKMARK":
                    self._hand_on(event)
                self._version = event["object"]["metadata"].get("resourceVersion", self._version)

    def _begun(self) -> None:
        """Ask for the list only now: a deletion between a list and the watch would be missed, too."""
        if self._gap:
            self._gap = False
            self._list_again(self._kind)

    def _hand_on(self, event: Object) -> None:
        try:
            self._notice(self._kind, event)
        except Exception:  # an error in one object must not affect the others
            meta = event["object"]["metadata"]
            logger.exception(
                "a change of the %s %s/%s could not be read; it is left out",
                self._kind,
                meta.get("namespace"),
                meta.get("name"),
            )

    def _tell(self, error: ApiError) -> None:
        """Log the first failure in a row, with two exceptions. A kind that is not served, such as Knative's,
        is no failure. A namespace of watchNamespaces that may not be read is logged by the lists."""
        usual = error.status in (GONE, 404) or (error.status == 403 and self._namespace is not None)
        if self._failures == 1 and not usual:
            logger.warning("cannot watch %s now, it is tried again by itself: %s", self._kind, error)
