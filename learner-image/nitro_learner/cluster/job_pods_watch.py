"""The actor pods of a job beside the job itself, look by look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from kubernetes.client import CoreV1Api

from nitro_learner.cluster.api import TIMEOUT_SECONDS, backoff
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs, explained

LOOK_SECONDS = 1.0
_MOST_FAILURES = 10


def looks(jobs: NamespaceJobs, name: str) -> Iterator[tuple[Job, list[dict[str, Any]]]]:
    """The job and its actor pods, about every second. Blocking, and without an end.

    An API server that does not answer for a moment is asked again.

    Raises:
        ClusterError: there is no such job any more, or the API server has not answered ten times in a row.
    """
    failures = 0
    while True:
        try:
            yield jobs.get(name), _pods(jobs, name)
            failures = 0
        except ClusterError as error:
            failures += 1
            if not error.passing or failures >= _MOST_FAILURES:
                raise
            time.sleep(backoff(failures))
        time.sleep(LOOK_SECONDS)


def _pods(jobs: NamespaceJobs, name: str) -> list[dict[str, Any]]:
    """As the API server has them; from its cache, which costs it little."""
    with explained():
        answer: Any = CoreV1Api(jobs.client).list_namespaced_pod(
            jobs.namespace,
            label_selector=f"nitro.dev/job={name},app.kubernetes.io/component=actor",
            resource_version="0",
            _request_timeout=TIMEOUT_SECONDS,
            _preload_content=False,
        )
    pods: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return pods
