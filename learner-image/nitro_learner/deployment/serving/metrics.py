"""The metrics of a served policy; docs/metrics.md lists them."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

_BUCKETS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


class ServingMetrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, round: int) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "nitro_serve_requests",
            "Requests that were answered. Paths that there are not count as `other`.",
            ("path", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "nitro_serve_request_seconds",
            "Time from a request's head to the end of its answer.",
            ("path",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._rows = Counter(
            "nitro_serve_observations",
            "Observations that got an action: each row of a batch counts, and several agents are one.",
            registry=self.registry,
        )
        Gauge(
            "nitro_serve_policy_round",
            "Round of the run after which the policy was saved.",
            registry=self.registry,
        ).set(round)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def acted(self, rows: int) -> None:
        """Count observations that got an action."""
        self._rows.inc(rows)
