"""status: what the operator and the learner report. The operator owns all that is not in `learner_status`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nitro_api.spec.learner_status import MOST_AGENTS, CostStatus, PolicyStatus, SharingStatus, TrainingStatus
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
    """Ready, LearnerReady, ActorsReady, Suspended, Complete or Failed."""

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
    """Who decides the number of actors: spec.scaling.scaler, or the preset's."""

    training: TrainingStatus | None = None
    """The learner's report."""

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
