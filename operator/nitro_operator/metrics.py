"""The operator's metrics of itself. Those of jobs are in status/summary.py; docs/metrics.md lists all."""

from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # no panel uses the start of a counter

RECONCILE_SECONDS = Histogram(
    "nitro_operator_reconcile_duration_seconds",
    "Duration of one reconcile of one job",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RECONCILE_ERRORS = Counter("nitro_operator_reconcile_errors_total", "Reconciles that raised or took too long")
SCORE_TO_SCALE = Histogram(
    "nitro_operator_score_to_scale_seconds",
    "From the operator's first sight of a request for actors to the patched Revision",
    buckets=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5),
)
API_REQUESTS = Counter(
    "nitro_operator_api_requests_total",
    "Requests of the reconcile loop to the API server, by HTTP method and status (0 = no answer)",
    ["verb", "status"],
)
AWS_REQUESTS = Counter(
    "nitro_operator_aws_requests_total",
    "Requests to AWS Lambda's API by operation and error code (ok = none), without learners' invocations",
    ["operation", "code"],
)
PLATFORM_LIMIT = Gauge(
    "nitro_operator_platform_limit_actors", "Actors that all jobs together may have; 0 = no limit"
)
GRANTED = Gauge("nitro_operator_granted_actors", "Actors that jobs hold now, all together")


class Health(Collector):
    """Metrics that show whether the operator makes progress. Every scrape reads the current values.

    Args:
        resynced: Unix time of the last resync of all jobs; None before the first one, as in an operator that
            waits for its Lease. Then there is no series, because nothing is stuck.
        queued: jobs that wait for a worker.
        longest_run: seconds that the longest of the running reconciles has been running.
    """

    def __init__(
        self,
        resynced: Callable[[], float | None],
        queued: Callable[[], int],
        longest_run: Callable[[], float],
    ) -> None:
        self._read: tuple[tuple[str, str, Callable[[], float | None]], ...] = (
            (
                "nitro_operator_resync_timestamp_seconds",
                "Unix time of the last resync of all jobs; more than a minute ago = the loop is stuck, "
                "none = it has not begun, as in an operator that waits for its Lease",
                resynced,
            ),
            ("nitro_operator_queued_jobs", "Jobs that wait for a reconcile", queued),
            (
                "nitro_operator_longest_reconcile_seconds",
                "How long the longest of the running reconciles has been running; 0 = none runs",
                longest_run,
            ),
        )
        REGISTRY.register(self)

    def close(self) -> None:
        REGISTRY.unregister(self)

    def describe(self) -> Iterable[Metric]:
        """The names only: nothing can be read before the operator has started."""
        return [GaugeMetricFamily(name, text) for name, text, _ in self._read]

    def collect(self) -> Iterable[Metric]:
        values = ((name, text, read()) for name, text, read in self._read)
        return [
            GaugeMetricFamily(name, text, value=value) for name, text, value in values if value is not None
        ]


async def scrape(request: web.Request) -> web.Response:
    """Prometheus' text format, or OpenMetrics if a client asks for it.

    The handler runs in the event loop. So no value is read while it changes, and a blocked loop fails the
    scrape.
    """
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})
