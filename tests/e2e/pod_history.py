"""What a job's actor pods did and requested, as a watch of the API server tells it, event by event."""

from __future__ import annotations

import math
import statistics
import threading
import time

from harness import Cluster, of_component

from nitro_learner.views.pod_lives import PodLives, Span


class PodHistory:
    """Follow the actor pods of a job in a thread, until `close`."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.most = 0
        """Most pods at a time."""
        self._lives = PodLives()
        self._lock = threading.Lock()
        self._end = math.inf
        threading.Thread(target=self._follow, args=(cluster, namespace, name), daemon=True).start()

    def close(self) -> None:
        self._end = 0.0

    @property
    def spans(self) -> list[list[Span]]:
        """Of each pod that was on a node, up to now."""
        with self._lock:
            return self._lives.spans(time.time())

    @property
    def gigabyte_seconds(self) -> float:
        """Memory that they requested, over time."""
        with self._lock:
            return self._lives.gigabyte_seconds(time.time())

    @property
    def paid(self) -> float:
        """Pod-seconds up to now."""
        return sum(span.seconds for spans in self.spans for span in spans)

    def median(self, state: str) -> float:
        """Median seconds that a pod was in a state, of those that were in it; 0 where none was."""
        times = [sum(span.seconds for span in spans if span.state == state) for spans in self.spans]
        return statistics.median([found for found in times if found] or [0.0])

    def _follow(self, cluster: Cluster, namespace: str, name: str) -> None:
        pods, selector = cluster.kind("v1", "Pod"), of_component(name, "actor")
        for items in cluster.follow(pods, namespace, end=lambda: self._end, selector=selector):
            with self._lock:
                self._lives.see(items.values(), time.time())
            self.most = max(self.most, len(items))
