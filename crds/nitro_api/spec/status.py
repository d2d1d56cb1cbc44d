"""status: what the operator and the learner report. The operator owns all that is not in `learner_status`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nitro_api.spec.learner_status import (
    MOST_AGENTS,
    CostStatus,
    PolicyStatus,
    ProgressStatus,
    SharingStatus,
    TrainingStatus,
)
from nitro_api.spec.status_fields import (
    Count,
    Pods,
    PodSeconds,
    Rounds,
    Seconds,
    StatusModel,
    Text,
    Time,
    Word,
)

BY_TYPE: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""A list that has one entry for each type."""


class Condition(StatusModel):
    """One aspect of the job's state, as Kubernetes' other kinds report theirs."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Ready, LearnerReady, ActorsReady, Suspended, Complete, Failed or EnvironmentSound."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    reason: Annotated[str, Field(max_length=1024)] = ""
    """Cause in one CamelCase word."""

    message: Text = ""
    """Cause and remedy in a sentence."""

    last_transition_time: Time | None = None
    """When `status` last changed. RFC 3339."""

    observed_generation: Count | None = None
    """Generation of the job that this was said about."""


MOST_ADDRESSES = 1024
"""Of awake actor pods, that a status names."""
Address = Annotated[str, Field(max_length=45, pattern="^[0-9a-fA-F.:]+$")]


class VcpuSeconds(StatusModel):
    """Requested CPU of actor pods over time, by their state. Unit: vCPU-seconds."""

    awake: PodSeconds = 0.0
    """Of ready pods with their whole CPU."""

    asleep: PodSeconds = 0.0
    """Of ready pods that sleep."""

    starting: PodSeconds = 0.0
    """Of pods that are not ready yet."""

    draining: PodSeconds = 0.0
    """Of pods that are going."""


class ActorsStatus(StatusModel):
    """The actors' pods."""

    requested: Pods | None = None
    """Actors that the learner asked for."""

    granted: Pods | None = None
    """Actors that the operator allows now, within the platform's limit."""

    ready: Pods | None = None
    """Actors that are ready."""

    pod_seconds: PodSeconds | None = None
    """Time that actor pods have existed, terminating ones included. Unit: pod-seconds."""

    awake: Pods | None = None
    """Actors that are ready and have their whole CPU."""

    asleep: Pods | None = None
    """Actors that are ready and keep almost no CPU until the learner needs them."""

    deferred: Pods | None = None
    """Actors that are to wake, and for which their node or a quota has no room now."""

    addresses: Annotated[list[Address], Field(max_length=MOST_ADDRESSES)] | None = None
    """Addresses of the awake pods, to which the learner sends its rollouts; the first are used first."""

    vcpu_seconds: VcpuSeconds | None = None
    """CPU that actor pods have requested over time, by their state. Unit: vCPU-seconds."""

    pod_vcpu: Annotated[float, Field(ge=0, le=1e4)] | None = Field(default=None, alias="podVCPU")
    """CPU that an awake pod requests, with Knative's container. Unit: vCPU."""

    starting: Pods | None = None
    """Actor pods on a node that are not ready yet."""

    draining: Pods | None = None
    """Actor pods that are going; they are paid until they are gone."""

    started: Count | None = None
    """Actor pods that were started so far."""

    idle_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Share of the actors' paid time in which they did not work. Unit: percent."""

    start_seconds: Seconds | None = None
    """Median time until a pod of this job was ready. Unit: seconds."""

    drain_seconds: Seconds | None = None
    """Median time until a pod of this job was gone. Unit: seconds."""

    wake_seconds: Seconds | None = None
    """Median time until a pod of this job that was woken had its CPU. Unit: seconds."""

    provisioned: Pods | None = None
    """Sandboxes that AWS Lambda keeps ready, and bills while idle as well."""


class CheckpointStatus(StatusModel):
    """The newest checkpoint."""

    round: Rounds | None = None
    """Round after which it was written."""

    location: Word | None = None
    """Where it is: claim and path."""

    saved_at: Time | None = None
    """When it was written. RFC 3339."""


class JobStatus(StatusModel):
    """State of the job."""

    phase: (
        Literal["Pending", "Starting", "Running", "Stopping", "Suspended", "Succeeded", "Failed", "Deleting"]
        | None
    ) = None
    """The state in one word; the conditions say why."""

    conditions: Annotated[list[Condition], Field(max_length=16, json_schema_extra=BY_TYPE)] | None = None
    """The state in detail, one entry for each type."""

    observed_generation: Count | None = None
    """Generation of the job that the operator has last acted on."""

    start_time: Time | None = None
    """When the operator first started the learner. RFC 3339."""

    completion_time: Time | None = None
    """When the job succeeded or failed. RFC 3339."""

    scaler: Word | None = None
    """Who decides the number of actors: spec.scaling.scaler, or the preset's, or the class that
    spec.scaling.entryPoint names."""

    training: TrainingStatus | None = None
    """The learner's report."""

    progress: ProgressStatus | None = None
    """How far the run is."""

    actors: ActorsStatus | None = None
    """The actors' pods."""

    policies: Annotated[list[PolicyStatus], Field(max_length=MOST_AGENTS)] | None = None
    """The policies of a run of several agents, at most 64 of them."""

    sharing: SharingStatus | None = None
    """Which agents of a run of several agents share policies."""

    cost: CostStatus | None = None
    """Cost so far. Unit: US dollars."""

    checkpoint: CheckpointStatus | None = None
    """The newest checkpoint."""
