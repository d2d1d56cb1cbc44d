"""What a job's actor pods did and requested, as watches of the API server tell it, event by event."""

from __future__ import annotations

import math
import statistics
import threading
import time

from harness import Cluster, of_component

from nitro_learner.run.views.pod_lives import JobPods, PastNeed, Span


class PodHistory:
    """Follow a job and its actor pods in two threads, until `close`."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.most = 0
        """Most pods at a time."""
        self._seen = JobPods()
        self._lock = threading.Lock()
        self._end = math.inf
        for follow in (self._follow_pods, self._follow_job):
            threading.Thread(target=follow, args=(cluster, namespace, name), daemon=True).start()

    def close(self) -> None:
        self._end = 0.0

    @property
    def spans(self) -> list[list[Span]]:
        """Of each pod that was on a node, up to now."""
        with self._lock:
            return self._seen.lives.spans(time.time())

    @property
    def gigabyte_seconds(self) -> float:
        """Memory that they requested, over time."""
        with self._lock:
            return self._seen.lives.gigabyte_seconds(time.time())

    @property
    def paid(self) -> float:
        """Pod-seconds up to now."""
        return sum(span.seconds for spans in self.spans for span in spans)

    @property
    def needs(self) -> list[PastNeed]:
        """What the learner said that it needs."""
        with self._lock:
            return list(self._seen.needs)

    def median(self, state: str) -> float:
        """Median seconds that a pod was in a state, of those that were in it; 0 where none was."""
        times = [sum(span.seconds for span in spans if span.state == state) for spans in self.spans]
        return statistics.median([found for found in times if found] or [0.0])

    def _follow_pods(self, cluster: Cluster, namespace: str, name: str) -> None:
        pods, selector = cluster.kind("v1", "Pod"), of_component(name, "actor")
        for items in cluster.follow(pods, namespace, end=lambda: self._end, selector=selector):
            with self._lock:
                self._seen.lives.see(items.values(), time.time())
            self.most = max(self.most, len(items))

    def _follow_job(self, cluster: Cluster, namespace: str, name: str) -> None:
        for items in cluster.follow(cluster.jobs, namespace, end=lambda: self._end, name=name):
            with self._lock:
                for job in items.values():
                    self._seen.hear(job, time.time())
