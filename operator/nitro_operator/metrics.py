"""The operator's own metrics, and a summary of every job that outlives its learner's pod."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nitro_operator.kinds import JobKey, Object

PHASES = ("Pending", "Starting", "Running", "Suspended", "Succeeded", "Failed")

RECONCILE_SECONDS = Histogram(
    "nitro_operator_reconcile_duration_seconds",
    "Duration of one reconcile of one job",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RECONCILE_ERRORS = Counter("nitro_operator_reconcile_errors_total", "Reconciles that raised")
SCORE_TO_SCALE = Histogram(
    "nitro_operator_score_to_scale_seconds",
    "From the operator's first sight of a request for actors to the patched Revision",
    buckets=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5),
)
API_REQUESTS = Counter(
    "nitro_operator_api_requests_total", "API requests of the reconcile loop", ["verb", "status"]
)
PLATFORM_LIMIT = Gauge(
    "nitro_operator_platform_limit_actors", "Actors that all jobs together may have; 0 = no limit"
)
GRANTED = Gauge("nitro_operator_granted_actors", "Actors that jobs hold now, all together")

SUMMARY: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("round", "Last finished round", ("training", "round")),
    ("env_steps", "Environment steps sampled so far", ("training", "envSteps")),
    ("reward_mean", "Mean return of the last training episodes", ("training", "rewardMean")),
    ("evaluation_mean", "Mean return of the last evaluation", ("training", "evaluationMean")),
    ("boosting_score", "Boosting score of the last round", ("training", "boostingScore")),
    ("convexity_ratio", "Convexity ratio of the last round", ("training", "convexityRatio")),
    ("actors_requested", "Actors that the learner asked for", ("actors", "requested")),
    ("actors_granted", "Actors that the operator allows", ("actors", "granted")),
    ("actors_ready", "Actor pods that are ready", ("actors", "ready")),
    ("pod_seconds", "Time that actor pods have existed", ("actors", "podSeconds")),
    ("cost_dollars", "Cost of the run so far", ("cost", "total")),
)


class JobSummary(Collector):
    """nitro_jobs and nitro_job_status_*, read from the jobs that are there: a deleted job's series go with
    it."""

    def __init__(self, jobs: Callable[[], Iterable[tuple[JobKey, Object]]]) -> None:
        self._jobs = jobs
        REGISTRY.register(self)

    def close(self) -> None:
        REGISTRY.unregister(self)

    def collect(self) -> Iterable[Metric]:
        jobs = list(self._jobs())
        phases = Tally((job.get("status") or {}).get("phase", "Pending") for _, job in jobs)
        count = GaugeMetricFamily("nitro_jobs", "Jobs in each phase", labels=["phase"])
        for phase in PHASES:
            count.add_metric([phase], phases[phase])
        yield count
        for name, text, path in SUMMARY:
            family = GaugeMetricFamily(f"nitro_job_status_{name}", text, labels=["namespace", "job_name"])
            for key, job in jobs:
                value = _at(job.get("status"), path)
                if value is not None:
                    family.add_metric([key.namespace, key.name], float(value))
            yield family


def _at(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        value = (value or {}).get(name)
    return value
