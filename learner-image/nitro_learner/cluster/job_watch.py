"""The watch on the learner's own job, which brings changes such as a new grant."""

from __future__ import annotations

import logging
import threading
from typing import Any

from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone, WatchExpired
from nitro_learner.cluster.job_mirror import JobMirror

logger = logging.getLogger(__name__)


class JobWatch:
    """Watch the job in a thread and pass every state of it to the mirror.

    A watch that ends goes on from the last version that was seen. If the API server has forgotten that
    version, the job is read anew. Failures in a row are tried again with a growing, random pause. A job that
    is gone ends the watch.

        watch = JobWatch(client, mirror)
        watch.start()
        watch.stop()
    """

    def __init__(self, client: JobClient, mirror: JobMirror) -> None:
        self._client = client
        self._mirror = mirror
        self._woken = threading.Event()
        self._stopping = False
        self._version: str | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a connection that does not answer does not hold it up for long."""
        self._stopping = True
        self._woken.set()
        self._client.end_watch()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            self._woken.wait(self._look())

    def _look(self) -> float:
        """Watch until the connection ends; returns seconds until the next look."""
        self._failures += 1  # in a row, until an event comes: a watch that ends without one counts as well
        try:
            if self._version is None:
                self._take(self._client.get())
            for job in self._client.watch(str(self._version)):
                self._take(job)
                self._failures = 0
                if self._stopping:
                    break
        except WatchExpired:
            self._version = None
        except JobGone as error:
            self._stopping = True
            self._mirror.lose(error)
        except ApiUnavailable as error:
            if self._failures == 1 and not self._stopping:
                logger.info("the watch on the job has ended and is started again: %s", error)
        return backoff(self._failures)

    def _take(self, job: dict[str, Any]) -> None:
        self._mirror.take(job)
        self._version = job["metadata"]["resourceVersion"]
