"""Every metric of the learner, the operator and a served policy, exposed with the numbers of an example job.

The reference is generated from it, and tests run Prometheus' own checks on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Metric
from prometheus_client.registry import Collector

from nitro_learner.deployment.serving.metrics import ServingMetrics
from nitro_learner.run.metrics import LearnerMetrics
from nitro_learner.training.round_report import COLUMNS, PolicyReport, RoundCounters, RoundReport
from nitro_operator import metrics as operator_metrics
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.status.summary import JobSummary

PREFIX = "nitro_"
_JOB: Object = {
    "spec": {
        "environment": {"id": "Hopper-v5"},
        "algorithm": {"name": "PPO"},
        "scaling": {"scaler": "nitro"},
        "backend": {"type": "Knative"},
        "actor": {"perPod": 1},
        "stop": {"rounds": 10, "targetReward": 1000.0, "budgetDollars": 5.0},
    },
    "status": {
        "phase": "Running",
        "training": {
            "round": 3,
            "envSteps": 4096,
            "rewardMean": 12.5,
            "evaluationMean": 14.0,
            "boostingScore": 0.25,
            "convexityRatio": 1.5,
            "needsNow": 4,
            "updatedAt": "2026-01-01T00:00:10.5Z",
        },
        "progress": {"percent": 30.0, "by": "rounds", "etaSeconds": 70},
        "actors": {
            "requested": 8,
            "granted": 6,
            "ready": 5,
            "provisioned": 2,
            "podSeconds": 100.5,
            "started": 9,
            "awake": 4,
            "asleep": 1,
            "deferred": 1,
            "starting": 1,
            "draining": 1,
            "podVCPU": 1.025,
            "vcpuSeconds": {"awake": 90.5, "asleep": 1.5, "starting": 4.5, "draining": 2.5},
        },
        "cost": {"learner": 0.5, "actors": 0.25, "total": 0.75},
    },
}


class _Nitro(Collector):
    """Nitro's metric families of a registry, without those that prometheus_client adds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        return (family for family in self._registry.collect() if family.name.startswith(PREFIX))


def learner() -> Collector:
    """The learner's metrics after a round in which everything was measured."""
    metrics = LearnerMetrics("team", "hopper", begun=False)
    metrics.on_run_started(round=0, rounds=10, history=[])
    measured: dict[str, Any] = dict.fromkeys(COLUMNS, 1)
    policy = PolicyReport(
        1.0,
        ("agent_0", "agent_1"),
        convexity_ratio=1.0,
        score=0.5,
        stats={"kl": 0.1, "entropy": 1.0, "value_loss": 1.0},
    )
    counters = RoundCounters(reward_std=1.0, detector_seconds=0.1)
    metrics.on_round_done(RoundReport(**measured, policies={"agent_0": policy}, counters=counters))
    metrics.on_cache_measured(used=2**20, limit=2**30)
    return _Nitro(metrics.registry)


def serving() -> Collector:
    """The metrics of a served policy after one request."""
    metrics = ServingMetrics(round=1)
    metrics.answered("/v1/act", 200, 0.001)
    metrics.acted(1)
    return _Nitro(metrics.registry)


@contextmanager
def operator() -> Iterator[Collector]:
    """The operator's metrics with one job. They are in the process's registry while the block runs."""
    summary = JobSummary(lambda: [(JobKey("team", "hopper"), _JOB)])
    health = operator_metrics.Health(lambda: 1767225610.0, lambda: 0, lambda: 0.0)
    operator_metrics.API_REQUESTS.labels("GET", "200")
    operator_metrics.AWS_REQUESTS.labels("get_function", "ok")
    try:
        yield _Nitro(REGISTRY)
    finally:
        health.close()
        summary.close()
