"""The watch on the learner's own job, which brings changes such as a new grant."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone, WatchExpired, WatchForbidden
from nitro_learner.cluster.job_mirror import JobMirror

logger = logging.getLogger(__name__)

# How often the job is polled, and how often while the operator has not answered a request.
_POLL_SECONDS = 1.0
_EAGER_POLL_SECONDS = 0.1
_EAGER_SECONDS = 5.0
# After so long a watch is tried again: a new Role takes effect a moment later, an operator may be upgraded.
_FORBIDDEN_SECONDS = 60.0


class JobWatch:
    """Watch the job in a thread and pass every state of it to the mirror.

    A watch that ends goes on from the last version that was seen. If the API server has forgotten that
    version, the job is read anew. Failures in a row are tried again with a growing, random pause. An operator
    of an older release gives the learner no right to watch: then the job is polled. A job that is gone ends
    the watch.

        watch = JobWatch(client, mirror)
        watch.start()
        watch.expect(16)          # 16 actors were requested just now
        watch.stop()
    """

    def __init__(self, client: JobClient, mirror: JobMirror) -> None:
        self._client = client
        self._mirror = mirror
        self._woken = threading.Event()
        self._stopping = False
        self._version: str | None = None
        self._failures = 0
        self._poll_until = float("-inf")
        self._expected: int | None = None
        self._eager_until = float("-inf")
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

    def expect(self, actors: int) -> None:
        """Poll more often until this number is granted, for some seconds. A watch needs no such hint."""
        self._expected = actors
        self._eager_until = time.monotonic() + _EAGER_SECONDS
        self._woken.set()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            self._woken.wait(self._look())

    def _look(self) -> float:
        """Poll once, or watch until the connection ends; returns seconds until the next look."""
        self._failures += 1  # in a row, until an event comes: a watch that ends without one counts as well
        try:
            polling = time.monotonic() < self._poll_until
            if polling or self._version is None:
                self._take(self._client.get())
            if polling:
                self._failures = 0
                return self._poll_pause()
            for job in self._client.watch(str(self._version)):
                self._take(job)
                self._failures = 0
                if self._stopping:
                    break
        except WatchForbidden as error:
            if self._poll_until == float("-inf"):
                logger.info("the learner may not watch its job (%s); it polls the job instead", error)
            self._poll_until = time.monotonic() + _FORBIDDEN_SECONDS * random.uniform(0.75, 1.25)
            return self._poll_pause()
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

    def _poll_pause(self) -> float:
        unanswered = self._mirror.granted != self._expected and time.monotonic() < self._eager_until
        return _EAGER_POLL_SECONDS if unanswered else _POLL_SECONDS
