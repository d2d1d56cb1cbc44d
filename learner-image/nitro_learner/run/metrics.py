"""The learner's Prometheus metrics; docs/metrics.md lists them with the operator's.

Every series has the labels namespace and job_name, and never actor or pod names. Every other label has one of
a few known values. Counters count what this process has seen, so that a restart is an ordinary reset, which
`rate` and `increase` handle. Only the cost goes on from its last value: its ledger never goes back, not even
when rounds are done again.
"""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import HTTPServer
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    MetricsHandler,
    disable_created_metrics,
)

from nitro_api.costs.prices import RoundCost
from nitro_api.doors import Door, Rate, doors
from nitro_learner.sampling.drop_reasons import DROP_REASONS
from nitro_learner.training.costs import ActorWork
from nitro_learner.training.round_report import STAGES, Listener, Outcome, PolicyReport, RoundReport, Row

if TYPE_CHECKING:
    from nitro_learner.training.sharing.toggles import Regrouping

PLACES = 16
"""Connections at once. Each has a thread, and a scraper needs one."""
RATE = Rate(burst=32, per_second=2)
"""How fast one address may open them."""
SECONDS = 10.0
"""Time that a client has to ask, and to take the answer."""
_LABELS = ("namespace", "job_name")
_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
ACTOR_STATES = ("requested", "running", "succeeded", "failed", "lost")
COMPONENTS = ("learner", "actors")
TRACKERS = ("wandb", "mlflow")
RETRY_REASONS = (
    "account_concurrency",
    "actor_start",
    "bad_answer",
    "busy",
    "cache",
    "connection",
    "credentials",
    "died",
    "draining",
    "environment",
    "function_error",
    "internal",
    "invocation_rate",
    "missing",
    "not_ready",
    "out_of_memory",
    "over",
    "redis_full",
    "redis_unreachable",
    "refused",
    "reserved_concurrency",
    "sandbox_died",
    "server_error",
    "service_error",
    "starting",
    "throttled",
    "timeout",
    "unavailable",
    "weights_invalid",
    "weights_missing",
)
"""Reasons why tries were repeated; from nitro_learner.backends and nitro_learner.backends.tasks."""


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, door: Door, handler: type[MetricsHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = door

    def handle_error(self, *_: object) -> None:
        """Log nothing: a client has left, or takes too long."""


def serve(registry: CollectorRegistry, port: int) -> int:
    """Serve a registry on all interfaces, of IPv4 and of IPv6, in daemon threads. Returns the port. Strangers
    that connect to it cannot hold up the training.

    Raises:
        OSError: the port is taken.
    """
    # `factory` is declared to give the class itself.
    handler = type("Handler", (MetricsHandler.factory(registry),), {"timeout": SECONDS})
    for door in doors(None, port, places=PLACES, rate=RATE):
        port = door.getsockname()[1]
        server = _Server(door, handler)
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return port


class PolicyMetrics:
    """Series by policy; a single-agent run has one policy. The policies of a run change when agents begin to
    share them. The series of a policy that is gone end.

    Args:
        gauge: makes a gauge of a job, from its name, its text and its further labels.
    """

    def __init__(self, gauge: Callable[..., Gauge], job: tuple[str, str]) -> None:
        self._job = job
        self._known: set[str] = set()
        self._values = {
            "reward_mean": gauge(
                "nitro_policy_episode_reward_mean",
                "Mean return of the last 20 training episodes of the agents that a policy plays",
                "policy",
            ),
            "convexity_ratio": gauge(
                "nitro_policy_convexity_ratio", "Newest convexity ratio of a policy's objective", "policy"
            ),
            "score": gauge(
                "nitro_policy_boosting_score",
                "Boosting score of a policy; only with a scaler that has one for each",
                "policy",
            ),
            "kl": gauge("nitro_policy_kl", "KL divergence of a policy's newest update, in nats", "policy"),
            "entropy": gauge("nitro_policy_entropy", "Entropy of a policy after its newest update", "policy"),
            "value_loss": gauge(
                "nitro_policy_value_loss", "Value loss of a policy's newest update", "policy"
            ),
        }
        self._agents = gauge("nitro_policy_agents", "Agents that a policy plays; of several agents", "policy")
        self._shared = gauge("nitro_sharing_state", "1 while agents share policies, otherwise 0")
        self._groups = gauge("nitro_sharing_groups", "Policies of several agents, each of a group of them")

    def measured(self, policies: Mapping[str, PolicyReport]) -> None:
        """Set the series after a round that these policies sampled and learned from."""
        for policy, own in policies.items():
            values = {
                "reward_mean": own.reward_mean,
                "convexity_ratio": own.convexity_ratio,
                "score": own.score,
                **own.stats,
            }
            for name, gauge in self._values.items():
                value = values.get(name)
                if value is not None:
                    gauge.labels(*self._job, policy).set(value)
        self.grouped({policy: own.agents for policy, own in policies.items()})

    def grouped(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Set which agents each policy has from now on, and remove the series of policies that are gone."""
        for gone in self._known - groups.keys():
            for gauge in (*self._values.values(), self._agents):
                with contextlib.suppress(KeyError):  # this policy has no such series
                    gauge.remove(*self._job, gone)
        self._known = set(groups)
        if sum(map(len, groups.values())) < 2:
            return
        for policy, agents in groups.items():
            self._agents.labels(*self._job, policy).set(len(agents))
        self._groups.labels(*self._job).set(len(groups))
        self._shared.labels(*self._job).set(any(len(agents) > 1 for agents in groups.values()))


class LearnerMetrics(Listener):
    """The metrics of one job, fed by the round reports.

    Args:
        namespace: of the job; "local" outside a cluster.
        begun: whether earlier sittings of the run have paid for anything, though perhaps for no round of its
            history: they may have ended before the first checkpoint.
    """

    def __init__(self, namespace: str, job_name: str, *, begun: bool) -> None:
        self.registry = CollectorRegistry()
        self._job = (namespace, job_name)
        self._costs = dict.fromkeys(COMPONENTS, 0.0)
        self._steps = 0
        self._begun = begun
        self._work: ActorWork | None = None if begun else ActorWork()
        self._make_gauges()
        self._make_counters()
        self._make_histograms()

    def _make_gauges(self) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*_LABELS, *labels), registry=self.registry)

        self.round = gauge("nitro_round", "Rounds done")
        self.actors = gauge(
            "nitro_round_actors",
            "Actor slots: requested for the next round, running now, and how those of the newest round ended",
            "state",
        )
        # Values that may be missing in a round: each is set once it is known.
        self._values = {
            "reward_mean": gauge("nitro_episode_reward_mean", "Mean return of the last 20 training episodes"),
            "reward_std": gauge(
                "nitro_episode_reward_std", "Standard deviation of the last 20 training episodes' returns"
            ),
            "evaluation_mean": gauge(
                "nitro_evaluation_reward_mean", "Mean return of the newest evaluation (mean actions)"
            ),
            "evaluation_std": gauge(
                "nitro_evaluation_reward_std", "Standard deviation of the newest evaluation's returns"
            ),
            "boosting_score": gauge("nitro_boosting_score", "Boosting score S_k of the newest round"),
            "convexity_ratio": gauge(
                "nitro_convexity_ratio", "Newest convexity ratio R_k, if the scaler uses it"
            ),
            "staleness": gauge(
                "nitro_fragment_staleness_versions",
                "Policy versions by which the newest round's oldest fragment was behind",
            ),
        }
        self.cache_used = gauge(
            "nitro_redis_memory_bytes",
            "Memory that the trajectory cache uses, measured once a round while the next one samples",
        )
        self.cache_limit = gauge(
            "nitro_redis_memory_limit_bytes", "Memory that the trajectory cache may use; 0 = no limit"
        )

        self._policies = PolicyMetrics(gauge, self._job)

    def _make_counters(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*_LABELS, *labels), registry=self.registry)

        self.steps = counter("nitro_env_steps", "Environment steps trained on")
        self.slots = counter("nitro_actor_slots", "Rollouts of finished rounds, also lost and stale ones")
        self.ready = counter("nitro_actor_slots_ready", "Those of them that did not wait for an actor")
        self.busy = counter("nitro_actor_busy_seconds", "Seconds that actors worked")
        self.invocations = counter(
            "nitro_actor_invocations",
            "Invocations that are billed, also evaluations, and failed and repeated ones",
        )
        self.estimated = counter(
            "nitro_actor_invocations_estimated",
            "Those of them whose billed time is an estimate, because the answer was lost",
        )
        self.cold_starts = counter("nitro_actor_cold_starts", "Invocations that met a freshly started actor")
        self.retries = counter("nitro_actor_retries", "Repeated invocations of finished rounds", "reason")
        self.misses = counter(
            "nitro_round_deadline_misses", "Slots that were not there at their round's deadline"
        )
        self.dropped = counter("nitro_fragments_dropped", "Fragments that came and were refused", "reason")
        self.bytes = counter("nitro_fragment_bytes", "Bytes of fragments as stored")
        self.failures = counter(
            "nitro_detector_failures", "Rounds whose convexity ratio or gradient noise could not be measured"
        )
        self.tracking = counter(
            "nitro_tracking_failures", "Times that an experiment tracker could not be written", "tracker"
        )
        self.toggles = counter("nitro_sharing_toggles", "Times that sharing of policies began or ended")
        self.cost = counter(
            "nitro_job_cost_dollars", "Dollars spent on the job so far, over all restarts", "component"
        )

    def _make_histograms(self) -> None:
        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(name, text, (*_LABELS, *labels), buckets=_BUCKETS, registry=self.registry)

        self.duration = histogram(
            "nitro_round_duration_seconds",
            "Seconds that rounds waited for each stage; total is the round's wall time",
            "stage",
        )
        self.detector = histogram(
            "nitro_detector_duration_seconds",
            "Compute time of a measurement, most of it beside the next round's sampling",
        )

    def serve(self, port: int) -> int:
        """Serve /metrics on all interfaces in daemon threads; port 0 picks a free one, which is returned.

        Raises:
            OSError: the port is taken.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]  # nobody asks when a counter began
        return serve(self.registry, port)

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self.round.labels(*self._job).set(round)
        for state in ACTOR_STATES:
            self._set_actors(state, 0)
        self._show_zeros()
        if history:
            self._steps = int(history[-1]["env_steps"] or 0)
        if not self._begun:
            # A resumed run's cost is known with its first report; a smaller number here would look like a
            # reset, and `rate` would count all of it again.
            for component in COMPONENTS:
                self.cost.labels(*self._job, component)

    def _show_zeros(self) -> None:
        """Create all counters at the start: `increase` does not see the step from nothing to a number."""
        for counter in (
            *(self.steps, self.slots, self.ready, self.busy, self.invocations, self.estimated),
            *(self.cold_starts, self.misses, self.bytes, self.failures, self.toggles),
        ):
            counter.labels(*self._job)
        for reason in RETRY_REASONS:
            self.retries.labels(*self._job, reason)
        for tracker in TRACKERS:
            self.tracking.labels(*self._job, tracker)
        for reason in DROP_REASONS:
            self.dropped.labels(*self._job, reason)
        for stage in STAGES:
            self.duration.labels(*self._job, stage)
        self.detector.labels(*self._job)

    def on_round_requested(self, *, round: int, actors: int) -> None:  # noqa: ARG002
        self._set_actors("requested", actors)

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:  # noqa: ARG002
        self._set_actors("running", actors if stage == "sample" else 0)

    def on_round_done(self, report: RoundReport) -> None:
        job, counters = self._job, report.counters
        self.round.labels(*job).set(report.round)
        values = report.row() | {"reward_std": counters.reward_std, "staleness": counters.staleness}
        for name, gauge in self._values.items():
            value = values[name]
            # A ratio that only sharing wanted would stay, like that of a detector which has stopped.
            if value is not None and (name != "convexity_ratio" or counters.ratio_wanted):
                gauge.labels(*job).set(value)
        self._policies.measured(report.policies)
        self._count(report)
        for stage, seconds in report.stages().items():
            self.duration.labels(*job, stage).observe(seconds)
        if counters.detector_seconds is not None:
            self.detector.labels(*job).observe(counters.detector_seconds)
        if counters.detector_failed:
            self.failures.labels(*job).inc()
        self._set_actors("succeeded", counters.learned)
        self._set_actors("lost", report.lost)
        self._set_actors("failed", report.retries)
        self._set_actors("requested", report.next_actors)

    def on_run_ended(self, outcome: Outcome) -> None:
        self._count_spent(outcome.cost, outcome.work)
        if returns := outcome.evaluation:  # the final policy's; no round reports it
            self._values["evaluation_mean"].labels(*self._job).set(fmean(returns))
            self._values["evaluation_std"].labels(*self._job).set(pstdev(returns))

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        self.toggles.labels(*self._job).inc()
        self._policies.grouped(regrouping.groups)

    def on_tracking_failed(self, *, tracker: str) -> None:
        self.tracking.labels(*self._job, tracker).inc()

    def on_cache_measured(self, *, used: int, limit: int) -> None:
        self.cache_used.labels(*self._job).set(used)
        self.cache_limit.labels(*self._job).set(limit)

    def _count(self, report: RoundReport) -> None:
        job, counters = self._job, report.counters
        self.steps.labels(*job).inc(report.env_steps - self._steps)
        self._steps = report.env_steps
        self.slots.labels(*job).inc(counters.learned + report.lost + counters.dropped.get("stale", 0))
        self.ready.labels(*job).inc(max(0, counters.learned - counters.late))
        self.cold_starts.labels(*job).inc(report.cold_starts)
        self.bytes.labels(*job).inc(report.fragment_bytes)
        self.misses.labels(*job).inc(counters.deadline_misses)
        self._count_by_reason(self.retries, counters.retried)
        self._count_by_reason(self.dropped, counters.dropped)
        self._count_spent(RoundCost(report.cost_learner, report.cost_actors), counters.work)

    def _count_spent(self, cost: RoundCost, work: ActorWork) -> None:
        """Count what the run has cost so far, and what its actors have done for it."""
        job = self._job
        # The first report of a resumed run only says where the run stands.
        new, self._work = work.since(self._work or work), work
        self.busy.labels(*job).inc(new.seconds)
        self.invocations.labels(*job).inc(new.invocations)
        self.estimated.labels(*job).inc(new.estimated)
        for component, total in (("learner", cost.learner), ("actors", cost.actors)):
            # A meter may correct itself downwards (a lost response was estimated too high); a counter may
            # not.
            self.cost.labels(*job, component).inc(max(0.0, total - self._costs[component]))
            self._costs[component] = max(total, self._costs[component])

    def _count_by_reason(self, counter: Counter, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            counter.labels(*self._job, reason).inc(count)

    def _set_actors(self, state: str, count: int) -> None:
        self.actors.labels(*self._job, state).set(count)
