"""nitro_jobs, nitro_job_status_* and nitro_job_spec_*: every job's summary, which outlives its learner's pod.

Every scrape reads the jobs that exist, so a deleted job's series end with it.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nitro_api.costs.pod_use import STATES
from nitro_api.spec.learner_status import CostStatus, TrainingStatus
from nitro_api.spec.pods import actors_per_pod
from nitro_api.spec.status import ActorsStatus
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.observation import reported

PHASES = ("Pending", "Starting", "Running", "Stopping", "Suspended", "Succeeded", "Failed", "Deleting")
JOB_LABELS = ("namespace", "job_name")


@dataclass(frozen=True)
class _Field:
    """A number of the job that is exported unchanged. A job without it has no series."""

    name: str
    text: str
    path: tuple[str, ...]


_GAUGES = (
    _Field("nitro_job_status_round", "Last finished round", ("status", "training", "round")),
    _Field(
        "nitro_job_status_env_steps",
        "Environment steps trained on, over all restarts",
        ("status", "training", "envSteps"),
    ),
    _Field(
        "nitro_job_status_reward_mean",
        "Mean return of the last 20 training episodes",
        ("status", "training", "rewardMean"),
    ),
    _Field(
        "nitro_job_status_evaluation_mean",
        "Mean return of the newest evaluation",
        ("status", "training", "evaluationMean"),
    ),
    _Field(
        "nitro_job_status_boosting_score",
        "Boosting score of the last round",
        ("status", "training", "boostingScore"),
    ),
    _Field(
        "nitro_job_status_convexity_ratio",
        "Convexity ratio of the last round",
        ("status", "training", "convexityRatio"),
    ),
    _Field(
        "nitro_job_status_actors_requested",
        "Actors that the learner asked for",
        ("status", "actors", "requested"),
    ),
    _Field(
        "nitro_job_status_actors_granted",
        "Actors that the operator allows within the platform's limit",
        ("status", "actors", "granted"),
    ),
    _Field(
        "nitro_job_status_actors_needed",
        "Actors that the learner uses now: fewer than it asked for while it learns",
        ("status", "training", "needsNow"),
    ),
    _Field("nitro_job_status_actors_ready", "Actors that are ready", ("status", "actors", "ready")),
    _Field(
        "nitro_job_status_actors_awake",
        "Actors that are ready and have their whole CPU",
        ("status", "actors", "awake"),
    ),
    _Field(
        "nitro_job_status_actors_asleep",
        "Actors that are ready and keep almost no CPU until the learner needs them",
        ("status", "actors", "asleep"),
    ),
    _Field(
        "nitro_job_status_actors_deferred",
        "Actors that are to wake, and for which their node or a quota has no room now",
        ("status", "actors", "deferred"),
    ),
    _Field(
        "nitro_job_status_actors_starting",
        "Actor pods on a node that are not ready yet",
        ("status", "actors", "starting"),
    ),
    _Field(
        "nitro_job_status_actors_provisioned",
        "Sandboxes that AWS Lambda keeps ready, and bills while idle as well",
        ("status", "actors", "provisioned"),
    ),
    _Field(
        "nitro_job_status_actors_draining",
        "Actor pods that are going; they are paid until they are gone",
        ("status", "actors", "draining"),
    ),
    _Field(
        "nitro_job_status_pod_vcpu",
        "CPU that an awake actor pod requests, with Knative's container",
        ("status", "actors", "podVCPU"),
    ),
    _Field("nitro_job_spec_actors_per_pod", "Actors in one pod", ("spec", "actor", "perPod")),
    _Field("nitro_job_spec_rounds", "Rounds after which the job stops", ("spec", "stop", "rounds")),
    _Field(
        "nitro_job_spec_target_reward",
        "Mean evaluation return at which the job stops",
        ("spec", "stop", "targetReward"),
    ),
    _Field(
        "nitro_job_spec_budget_dollars",
        "Dollars after which the job stops",
        ("spec", "stop", "budgetDollars"),
    ),
)
_POD_SECONDS = _Field(
    "nitro_job_status_pod_seconds",
    "Time for which actor pods have existed, terminating ones included",
    ("status", "actors", "podSeconds"),
)
_STARTED = _Field("nitro_actor_pods_started", "Actor pods that were started", ("status", "actors", "started"))
_HEARTBEAT = _Field(
    "nitro_job_status_heartbeat_timestamp_seconds",
    "Unix time of the learner's last report, by the learner's clock",
    ("status", "training", "updatedAt"),
)
_INVALID = _Field(
    "nitro_job_status_invalid",
    "Fields of the job's status whose value cannot be used; their series are left out",
    ("status", "invalid"),
)
_INFO = (
    ("environment", (("spec", "environment", "id"), ("spec", "environment", "entryPoint"))),
    ("algorithm", (("spec", "algorithm", "name"),)),
    ("scaler", (("status", "scaler"), ("spec", "scaling", "scaler"))),
    ("backend", (("spec", "backend", "type"),)),
)
"""Labels, and the paths of their values: the first path with a value counts."""
COMPONENTS = ("learner", "actors")

_Jobs = Sequence[tuple[JobKey, Object]]


class JobSummary(Collector):
    """Collector that reads the jobs at every scrape.

    Args:
        jobs: returns all jobs.
    """

    def __init__(self, jobs: Callable[[], Iterable[tuple[JobKey, Object]]]) -> None:
        self._jobs = jobs
        REGISTRY.register(self)

    def close(self) -> None:
        REGISTRY.unregister(self)

    def collect(self) -> Iterable[Metric]:
        jobs = [(key, _readable(job)) for key, job in self._jobs()]
        yield _count(jobs)
        yield _phase(jobs)
        yield _info(jobs)
        for one in _GAUGES:
            yield _fill(GaugeMetricFamily(one.name, one.text, labels=JOB_LABELS), one.path, jobs)
        heartbeat = GaugeMetricFamily(_HEARTBEAT.name, _HEARTBEAT.text, labels=JOB_LABELS)
        yield _fill(heartbeat, _HEARTBEAT.path, jobs, _unix_time)
        for one in (_POD_SECONDS, _STARTED):
            yield _fill(CounterMetricFamily(one.name, one.text, labels=JOB_LABELS), one.path, jobs)
        yield _vcpu_seconds(jobs)
        yield _cost(jobs)
        yield _fill(GaugeMetricFamily(_INVALID.name, _INVALID.text, labels=JOB_LABELS), _INVALID.path, jobs)


def _readable(job: Object) -> Object:
    """The job with the part of its status that can be exported, and the number of fields that cannot."""
    parts: Object = {}
    invalid = 0
    for name, model in (("training", TrainingStatus), ("actors", ActorsStatus), ("cost", CostStatus)):
        raw = {key: value for key, value in reported.section(job, name).items() if key != "history"}
        found = model.model_validate(raw)
        parts[name] = found.to_dict()
        invalid += len(found.left_out(raw))
    phase, scaler = (reported.status(job).get(name) for name in ("phase", "scaler"))
    spec = {**job["spec"], "actor": {"perPod": actors_per_pod(job["spec"])}}
    return {"spec": spec, "status": {**parts, "phase": phase, "scaler": scaler, "invalid": invalid}}


def _count(jobs: _Jobs) -> Metric:
    family = GaugeMetricFamily("nitro_jobs", "Jobs in each phase", labels=["phase"])
    phases = Tally(_phase_of(job) for _, job in jobs)
    for phase in PHASES:
        family.add_metric([phase], phases[phase])
    return family


def _phase(jobs: _Jobs) -> Metric:
    family = GaugeMetricFamily(
        "nitro_job_status_phase", "1 for the phase that the job is in", labels=[*JOB_LABELS, "phase"]
    )
    for key, job in jobs:
        family.add_metric([key.namespace, key.name, _phase_of(job)], 1)
    return family


def _info(jobs: _Jobs) -> Metric:
    family = GaugeMetricFamily(
        "nitro_job_info",
        "Always 1; the labels say what the job trains and how",
        labels=[*JOB_LABELS, *(name for name, _ in _INFO)],
    )
    for key, job in jobs:
        values = [str(next(filter(None, (_at(job, path) for path in paths)), "")) for _, paths in _INFO]
        family.add_metric([key.namespace, key.name, *values], 1)
    return family


def _cost(jobs: _Jobs) -> Metric:
    family = CounterMetricFamily(
        "nitro_job_status_cost_dollars",
        "Dollars spent on the job so far, over all restarts",
        labels=[*JOB_LABELS, "component"],
    )
    for component in COMPONENTS:
        _fill(family, ("status", "cost", component), jobs, more=(component,))
    return family


def _vcpu_seconds(jobs: _Jobs) -> Metric:
    family = CounterMetricFamily(
        "nitro_job_status_vcpu_seconds",
        "CPU that actor pods have requested over time, by their state",
        labels=[*JOB_LABELS, "state"],
    )
    for state in STATES:
        _fill(family, ("status", "actors", "vcpuSeconds", state), jobs, more=(state,))
    return family


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily,
    path: tuple[str, ...],
    jobs: _Jobs,
    number: Callable[[Any], float] = float,
    *,
    more: tuple[str, ...] = (),
) -> Metric:
    """Add the value at `path` of every job that has one; `more` are values of labels after the job's."""
    for key, job in jobs:
        value = _at(job, path)
        if value is not None:
            family.add_metric([key.namespace, key.name, *more], number(value))
    return family


def _phase_of(job: Object) -> str:
    return str(_at(job, ("status", "phase")) or "Pending")


def _unix_time(stamp: str) -> float:
    found = reported.moment(stamp)
    assert found is not None, "left out by TrainingStatus"
    return found.timestamp()


def _at(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
