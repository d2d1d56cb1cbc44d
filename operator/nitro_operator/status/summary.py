"""nitro_jobs, nitro_job_status_* and nitro_job_spec_*: every job's summary, which outlives its learner's pod.

Every scrape reads the jobs that exist, so a deleted job's series end with it.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nitro_api.costs.pod_use import STATES
from nitro_api.spec.learner_status import CostStatus, ProgressStatus, TrainingStatus
from nitro_api.spec.pods import actors_per_pod
from nitro_api.spec.status import ActorsStatus
from nitro_api.spec.status_fields import StatusModel
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.observation import reported

PHASES = ("Pending", "Starting", "Running", "Stopping", "Suspended", "Succeeded", "Failed", "Deleting")
JOB_LABELS = ("namespace", "job_name")


class _Field(NamedTuple):
    """A number of the job that is exported. A job without it has no series."""

    name: str
    path: str
    text: str


_GAUGES = (
    _Field("nitro_job_status_round", "status.training.round", "Last finished round"),
    _Field(
        "nitro_job_status_env_steps",
        "status.training.envSteps",
        "Environment steps trained on, over all restarts",
    ),
    _Field(
        "nitro_job_status_reward_mean",
        "status.training.rewardMean",
        "Mean return of the last 20 training episodes",
    ),
    _Field(
        "nitro_job_status_evaluation_mean",
        "status.training.evaluationMean",
        "Mean return of the newest evaluation",
    ),
    _Field(
        "nitro_job_status_boosting_score", "status.training.boostingScore", "Boosting score of the last round"
    ),
    _Field(
        "nitro_job_status_convexity_ratio",
        "status.training.convexityRatio",
        "Convexity ratio of the last round",
    ),
    _Field(
        "nitro_job_status_actors_requested", "status.actors.requested", "Actors that the learner asked for"
    ),
    _Field(
        "nitro_job_status_actors_granted",
        "status.actors.granted",
        "Actors that the operator allows within the platform's limit",
    ),
    _Field(
        "nitro_job_status_actors_needed",
        "status.training.needsNow",
        "Actors that the learner uses now: fewer than it asked for while it learns",
    ),
    _Field("nitro_job_status_actors_ready", "status.actors.ready", "Actors that are ready"),
    _Field(
        "nitro_job_status_actors_awake",
        "status.actors.awake",
        "Actors that are ready and have their whole CPU",
    ),
    _Field(
        "nitro_job_status_actors_asleep",
        "status.actors.asleep",
        "Actors that are ready and keep almost no CPU until the learner needs them",
    ),
    _Field(
        "nitro_job_status_actors_deferred",
        "status.actors.deferred",
        "Actors that are to wake, and for which their node or a quota has no room now",
    ),
    _Field(
        "nitro_job_status_actors_starting",
        "status.actors.starting",
        "Actor pods on a node that are not ready yet",
    ),
    _Field(
        "nitro_job_status_actors_provisioned",
        "status.actors.provisioned",
        "Sandboxes that AWS Lambda keeps ready, and bills while idle as well",
    ),
    _Field(
        "nitro_job_status_actors_draining",
        "status.actors.draining",
        "Actor pods that are going; they are paid until they are gone",
    ),
    _Field(
        "nitro_job_status_pod_vcpu",
        "status.actors.podVCPU",
        "CPU that an awake actor pod requests, with Knative's container",
    ),
    _Field("nitro_job_spec_actors_per_pod", "spec.actor.perPod", "Actors in one pod"),
    _Field("nitro_job_spec_rounds", "spec.stop.rounds", "Rounds after which the job stops"),
    _Field(
        "nitro_job_spec_target_reward",
        "spec.stop.targetReward",
        "Mean evaluation return at which the job stops",
    ),
    _Field("nitro_job_spec_budget_dollars", "spec.stop.budgetDollars", "Dollars after which the job stops"),
)
_COUNTERS = (
    _Field(
        "nitro_job_status_pod_seconds",
        "status.actors.podSeconds",
        "Time for which actor pods have existed, terminating ones included",
    ),
    _Field("nitro_actor_pods_started", "status.actors.started", "Actor pods that were started"),
)
_HEARTBEAT = _Field(
    "nitro_job_status_heartbeat_timestamp_seconds",
    "status.training.updatedAt",
    "Unix time of the learner's last report, by the learner's clock",
)
_PROGRESS = _Field(
    "nitro_job_progress_ratio",
    "status.progress.percent",
    "Done of the stop condition that is expected to end the run",
)
_INVALID = _Field(
    "nitro_job_status_invalid",
    "status.invalid",
    "Fields of the job's status whose value cannot be used; their series are left out",
)
_VCPU_SECONDS = _Field(
    "nitro_job_status_vcpu_seconds",
    "status.actors.vcpuSeconds",
    "CPU that actor pods have requested over time, by their state",
)
_COST = _Field(
    "nitro_job_status_cost_dollars", "status.cost", "Dollars spent on the job so far, over all restarts"
)
_INFO = (
    ("environment", ("spec.environment.id", "spec.environment.entryPoint")),
    ("algorithm", ("spec.algorithm.name",)),
    ("scaler", ("status.scaler", "spec.scaling.scaler")),
    ("backend", ("spec.backend.type",)),
)
"""Labels, and the paths of their values: the first path with a value counts."""
COMPONENTS = ("learner", "actors")

_PARTS: tuple[tuple[str, type[StatusModel]], ...] = (
    ("training", TrainingStatus),
    ("progress", ProgressStatus),
    ("actors", ActorsStatus),
    ("cost", CostStatus),
)
"""Parts of the status that are exported, and their models."""

_Jobs = Sequence[tuple[JobKey, Object]]


class JobSummary(Collector):
    """Collector that reads all jobs at every scrape."""

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
        for field in _GAUGES:
            yield _gauge(field, jobs)
        yield _gauge(_HEARTBEAT, jobs, _unix_time)
        yield _gauge(_PROGRESS, jobs, lambda percent: percent / 100)
        for name, path, text in _COUNTERS:
            yield _fill(CounterMetricFamily(name, text, labels=JOB_LABELS), path, jobs)
        yield _by_part(_VCPU_SECONDS, "state", STATES, jobs)
        yield _by_part(_COST, "component", COMPONENTS, jobs)
        yield _gauge(_INVALID, jobs)


def _readable(job: Object) -> Object:
    """The job with the part of its status that can be exported, and the number of fields that cannot."""
    parts: Object = {}
    invalid = 0
    for name, model in _PARTS:
        raw = {key: value for key, value in reported.section(job, name).items() if key != "history"}
        parsed = model.model_validate(raw)
        parts[name] = parsed.to_dict()
        invalid += len(parsed.left_out(raw))
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


def _gauge(field: _Field, jobs: _Jobs, number: Callable[[Any], float] = float) -> Metric:
    name, path, text = field
    return _fill(GaugeMetricFamily(name, text, labels=JOB_LABELS), path, jobs, number)


def _by_part(field: _Field, label: str, parts: Iterable[str], jobs: _Jobs) -> Metric:
    """A counter with a label whose values are fields at the path."""
    name, path, text = field
    family = CounterMetricFamily(name, text, labels=[*JOB_LABELS, label])
    for part in parts:
        _fill(family, f"{path}.{part}", jobs, more=(part,))
    return family


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily,
    path: str,
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
    return str(_at(job, "status.phase") or "Pending")


def _unix_time(stamp: str) -> float:
    time = reported.moment(stamp)
    assert time is not None, "left out by TrainingStatus"
    return time.timestamp()


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
