"""The learner's Prometheus metrics. Every series has the labels namespace and job_name, never actor or pod
names.

Totals count the whole run: after a resume they start where the checkpoint was.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from nitro_learner.report import Listener, RoundReport, Row

_LABELS = ("namespace", "job_name")
_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
ACTOR_STATES = ("requested", "running", "succeeded", "failed", "lost")


class LearnerMetrics(Listener):
    """The metrics of one job, fed by the round reports.

    Args:
        namespace: of the job; "local" outside a cluster.
        job_name: of the job.
    """

    def __init__(self, namespace: str, job_name: str) -> None:
        self.registry = CollectorRegistry()
        self._values = (namespace, job_name)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*_LABELS, *labels), registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*_LABELS, *labels), registry=self.registry)

        self.reward = gauge("nitro_episode_reward_mean", "Mean return of the last 20 training episodes")
        self.evaluation = gauge(
            "nitro_evaluation_reward_mean", "Mean return of the newest evaluation (mean actions)"
        )
        self.score = gauge("nitro_boosting_score", "Boosting score S_k of the newest round")
        self.ratio = gauge("nitro_convexity_ratio", "Convexity ratio R_k of the newest round")
        self.round = gauge("nitro_round", "Rounds done")
        self.actors = gauge("nitro_round_actors", "Actor slots of the current round by state", "state")
        self.memory = gauge("nitro_redis_memory_bytes", "Memory that the trajectory cache uses")
        self.staleness = gauge(
            "nitro_fragment_staleness_versions", "Policy versions that the newest fragments lag behind"
        )
        self.steps = counter("nitro_env_steps", "Environment steps trained on")
        self.cold_starts = counter("nitro_actor_cold_starts", "Invocations that met a freshly started actor")
        self.cost = counter("nitro_job_cost_dollars", "Dollars spent", "component")
        self.retries = counter("nitro_actor_retries", "Invocations tried again")
        self.dropped = counter("nitro_fragments_dropped", "Fragments refused", "reason")
        self.bytes = counter("nitro_fragment_bytes", "Bytes of accepted fragments as stored")
        self.misses = counter("nitro_round_deadline_misses", "Rounds that passed their deadline")
        self.failures = counter(
            "nitro_detector_failures", "Rounds whose convexity ratio could not be measured"
        )
        self.duration = Histogram(
            "nitro_round_duration_seconds",
            "Seconds that rounds waited for each stage",
            (*_LABELS, "stage"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.detector = Histogram(
            "nitro_detector_seconds",
            "Compute time of the detector, most of it beside the next round's sampling",
            _LABELS,
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def serve(self, port: int) -> int:
        """Serves /metrics on all interfaces in a daemon thread; port 0 picks a free one, which is returned.

        Raises:
            OSError: the port is taken.
        """
        server, thread = start_http_server(port, registry=self.registry)
        assert isinstance(thread, threading.Thread)
        return int(server.server_port)

    def started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self.round.labels(*self._values).set(round)
        for state in ACTOR_STATES:
            self._set_actors(state, 0)
        if history:
            last = history[-1]
            self.steps.labels(*self._values).inc(last["env_steps"] or 0)
            for component in ("learner", "actors"):
                self.cost.labels(*self._values, component).inc(last[f"cost_{component}"] or 0)
            for counter, column in (
                (self.cold_starts, "cold_starts"),
                (self.retries, "retries"),
                (self.bytes, "fragment_bytes"),
            ):
                counter.labels(*self._values).inc(sum(row[column] or 0 for row in history))
        self._costs = {
            name: (history[-1][f"cost_{name}"] or 0.0) if history else 0.0 for name in ("learner", "actors")
        }
        self._steps = int(history[-1]["env_steps"] or 0) if history else 0

    def requested(self, *, round: int, actors: int) -> None:  # noqa: ARG002
        self._set_actors("requested", actors)

    def phase(self, *, round: int, stage: str, actors: int) -> None:  # noqa: ARG002
        self._set_actors("running", actors if stage == "sample" else 0)

    def round_done(self, report: RoundReport) -> None:
        values = self._values
        for gauge, value in (
            (self.reward, report.reward_mean),
            (self.evaluation, report.evaluation_mean),
            (self.score, report.boosting_score),
            (self.ratio, report.convexity_ratio),
            (self.round, report.round),
            (self.staleness, report.staleness),
            (self.memory, report.cache_bytes),
        ):
            if value is not None:
                gauge.labels(*values).set(value)
        self.steps.labels(*values).inc(report.env_steps - self._steps)
        self._steps = report.env_steps
        self.cold_starts.labels(*values).inc(report.cold_starts)
        self.retries.labels(*values).inc(report.retries)
        self.bytes.labels(*values).inc(report.fragment_bytes)
        self.misses.labels(*values).inc(report.deadline_misses)
        for reason, count in report.dropped.items():
            self.dropped.labels(*values, reason).inc(count)
        for component, total in (("learner", report.cost_learner), ("actors", report.cost_actors)):
            # A meter may correct itself downwards (a lost response was estimated too high); a counter may
            # not.
            self.cost.labels(*values, component).inc(max(0.0, total - self._costs[component]))
            self._costs[component] = max(total, self._costs[component])
        for stage, seconds in report.stages().items():
            self.duration.labels(*values, stage).observe(seconds)
        if report.detector_seconds is not None:
            self.detector.labels(*values).observe(report.detector_seconds)
            if report.convexity_ratio is None:
                self.failures.labels(*values).inc()
        self._set_actors("succeeded", report.actors - report.lost)
        self._set_actors("lost", report.lost)
        self._set_actors("failed", report.retries)

    def _set_actors(self, state: str, count: int) -> None:
        self.actors.labels(*self._values, state).set(count)
