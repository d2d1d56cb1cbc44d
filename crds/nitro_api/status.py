"""status: what the operator and the learner report. The learner owns `training` and `cost`, the operator the
rest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from nitro_api.base import Model

Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Text = Annotated[str, Field(max_length=32_768)]
Word = Annotated[str, Field(max_length=1024)]
Count = Annotated[int, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0)]


ACTORS_SILENT = "ActorsSilent"
"""training.reason of a running job none of whose actors has answered yet."""


class StatusModel(Model):
    """Base of the status. What a newer writer added is ignored, so that an older reader goes on during an
    upgrade."""

    model_config = ConfigDict(extra="ignore")


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


class HistoryEntry(StatusModel):
    """One finished round."""

    round: Count
    """The round, counted from 1."""

    reward_mean: float | None = None
    """Mean return of the last 20 training episodes."""

    score: float | None = None
    """Boosting score after the round."""

    actors: Count | None = None
    """Actors that sampled in the round."""

    cost: Dollars | None = None
    """Cost of the run up to and including the round. Unit: US dollars."""


class TrainingStatus(StatusModel):
    """What the learner reports, at least every ten seconds."""

    state: Literal["Running", "Succeeded", "Failed"] | None = None
    """The learner's own view of the run."""

    reason: Word | None = None
    """Why it ended, or what it waits for, in one CamelCase word."""

    message: Text | None = None
    """Why it ended, or what it waits for, in a sentence."""

    round: Count | None = None
    """Last finished round."""

    env_steps: Count | None = None
    """Environment steps sampled so far."""

    reward_mean: float | None = None
    """Mean return of the last 20 training episodes."""

    reward_best: float | None = None
    """Best rewardMean so far."""

    evaluation_mean: float | None = None
    """Mean return of the last evaluation."""

    boosting_score: float | None = None
    """S_k, 0 to 1: how much the last round calls for more actors."""

    convexity_ratio: float | None = None
    """R_k, -lambda_max / lambda_min of the policy objective's Hessian."""

    requested_actors: Count | None = None
    """Actors that the next round asks for."""

    requested_at: Time | None = None
    """When requestedActors was decided. RFC 3339 with microseconds."""

    weights_version: Count | None = None
    """Version of the weights that actors sample with."""

    updated_at: Time | None = None
    """The learner's heartbeat. RFC 3339."""

    history: Annotated[list[HistoryEntry], Field(max_length=60)] | None = None
    """The last 60 rounds, oldest first."""


class ActorsStatus(StatusModel):
    """The actors' pods."""

    requested: Count | None = None
    """Actors that the learner asked for."""

    granted: Count | None = None
    """Actors that the operator allows now, within the platform's limit."""

    ready: Count | None = None
    """Actor pods that are ready."""

    pod_seconds: Annotated[float, Field(ge=0)] | None = None
    """Time that actor pods have existed, terminating ones included. Unit: pod-seconds."""

    provisioned: Count | None = None
    """Sandboxes that AWS Lambda keeps ready, and bills while idle as well."""


class CostStatus(StatusModel):
    """Cost of the run so far. Unit: US dollars."""

    learner: Dollars | None = None
    """The learner's machine."""

    actors: Dollars | None = None
    """Actor pods or invocations."""

    total: Dollars | None = None
    """Both."""


class CheckpointStatus(StatusModel):
    """The newest checkpoint."""

    round: Count | None = None
    """Round after which it was written."""

    location: Word | None = None
    """Where it is: claim and path."""

    saved_at: Time | None = None
    """When it was written. RFC 3339."""


class JobStatus(StatusModel):
    """State of the job."""

    phase: Literal["Pending", "Starting", "Running", "Suspended", "Succeeded", "Failed"] | None = None
    """The state in one word; the conditions say why."""

    conditions: Annotated[list[Condition], Field(max_length=16)] | None = None
    """The state in detail, one entry for each type."""

    observed_generation: Count | None = None
    """Generation of the job that the operator has last acted on."""

    start_time: Time | None = None
    """When the operator first started the learner. RFC 3339."""

    completion_time: Time | None = None
    """When the job succeeded or failed. RFC 3339."""

    training: TrainingStatus | None = None
    """The learner's report."""

    actors: ActorsStatus | None = None
    """The actors' pods."""

    cost: CostStatus | None = None
    """Cost so far. Unit: US dollars."""

    checkpoint: CheckpointStatus | None = None
    """The newest checkpoint."""
