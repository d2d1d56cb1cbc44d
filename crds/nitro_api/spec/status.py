"""status: what the operator and the learner report. The learner owns `training`, `policies`, `sharing` and
`cost`, the operator the rest.

A learner runs code of the job's author, so nothing in it is certain but the schema: every number is bounded,
every text and list limited, every time one that can be read.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from nitro_api.base import Model

TIME_PATTERN = (
    "^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$"
)
"""RFC 3339 as Python reads it: Kubernetes' own format takes +99:99 as a time zone."""


def _time(text: str) -> str:
    if not re.fullmatch(TIME_PATTERN, text):
        raise ValueError("must be a time such as 2026-11-20T12:00:00Z")
    datetime.fromisoformat(text)  # there is no 30 February
    return text


Time = Annotated[
    str,
    AfterValidator(_time),
    Field(max_length=64, json_schema_extra={"format": "date-time", "pattern": TIME_PATTERN}),
]
Text = Annotated[str, Field(max_length=32_768)]
Word = Annotated[str, Field(max_length=1024)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""Any whole number that every JSON reader keeps exactly."""
Rounds = Annotated[int, Field(ge=0, le=10**9)]
Pods = Annotated[int, Field(ge=0, le=10**6)]
MOST_AGENTS = 64
"""Of agents, and of policies, that a status names."""
AgentName = Annotated[str, Field(min_length=1, max_length=64)]
Score = Annotated[float, Field(ge=0, le=1)]
LARGEST = 1e100
"""Of returns and ratios: their squares and sums are finite too."""


def _number(value: float) -> float:
    if not abs(value) <= LARGEST:
        raise ValueError(_WITHIN["message"])
    return value


# The API server turns the maximum of a whole number into 64 bits, and would refuse every one below 1e100.
_WITHIN = {
    "rule": f"self >= -{LARGEST:g} && self <= {LARGEST:g}".replace("e+", "e"),
    "message": f"must be a number from -{LARGEST:g} to {LARGEST:g}; correct it",
}
Number = Annotated[
    float, AfterValidator(_number), Field(json_schema_extra={"x-kubernetes-validations": [_WITHIN]})
]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PodSeconds = Annotated[float, Field(ge=0, le=1e15)]
Dollars = Annotated[float, Field(ge=0, le=1e12)]


BY_TYPE: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""A list that has one entry for each type."""

ACTORS_SILENT = "ActorsSilent"
"""training.reason of a running job none of whose actors has answered yet."""


class StatusModel(Model):
    """Base of the status.

    A learner's account may write it, and what was stored before an upgrade had wider limits. So what is wrong
    is left out when it is read: a field, or an entry of a list. Only what is no mapping, or lacks a required
    field, is refused. What a newer writer added is ignored.
    """

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out_what_is_wrong(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            if not isinstance(value, dict):
                raise
            places = {item["loc"][:2] for item in error.errors(include_url=False)}
            return handler(_without(value, places))

    def left_out(self, raw: Mapping[str, Any]) -> list[str]:
        """Fields of what this was read from that are left out whole."""
        names = {field.alias or name: name for name, field in type(self).model_fields.items()}
        return [alias for alias, name in names.items() if alias in raw and name not in self.model_fields_set]


def _without(value: dict[str, Any], places: set[tuple[int | str, ...]]) -> dict[str, Any]:
    """A copy without the fields, and the entries of lists, at these places."""
    rest = copy.copy(value)
    wrong = {name for name, *below in places if not (below and isinstance(value.get(str(name)), list))}
    for name in {str(name) for name, *_ in places}:
        if name in wrong:
            rest.pop(name, None)
        elif name in rest:
            entries = enumerate(rest[name])
            rest[name] = [entry for index, entry in entries if (name, index) not in places]
    return rest


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

    round: Rounds
    """The round, counted from 1."""

    env_steps: Count | None = None
    """Environment steps of the run up to and including the round."""

    reward_mean: Number | None = None
    """Mean return of the last 20 training episodes."""

    evaluation_mean: Number | None = None
    """Mean return of the evaluation in the round, if there was one."""

    score: Score | None = None
    """Boosting score after the round."""

    actors: Pods | None = None
    """Actors that sampled in the round."""

    ready: Pods | None = None
    """Those of them that found a ready actor when the round asked for them."""

    seconds: Seconds | None = None
    """Time of the round. Unit: seconds."""

    actor_seconds: Seconds | None = None
    """Mean time that an actor worked on a rollout of the round. Unit: seconds."""

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

    round: Rounds | None = None
    """Last finished round."""

    env_steps: Count | None = None
    """Environment steps sampled so far."""

    rollout_length: Count | None = None
    """spec.environment.rolloutLength, with which the run began. Unit: environment steps."""

    envs_per_actor: Count | None = None
    """spec.environment.envsPerActor, with which the run began."""

    reward_mean: Number | None = None
    """Mean return of the last 20 training episodes."""

    cut_share: Score | None = None
    """Share of the last ten rounds' steps that belong to episodes which a rollout's end cut off for good.
    Above 0.5 rewardMean is that of short episodes only, and evaluationMean says more."""

    reward_best: Number | None = None
    """Best rewardMean so far."""

    evaluation_mean: Number | None = None
    """Mean return of the last evaluation."""

    boosting_score: Score | None = None
    """S_k, 0 to 1: how much the last round calls for more actors."""

    convexity_ratio: Number | None = None
    """R_k, -lambda_max / lambda_min of the policy objective's Hessian."""

    requests: Annotated[dict[str, Pods], Field(max_length=16)] | None = None
    """What the next round requests of each pool of functions: `actors`."""

    requested_actors: Pods | None = None
    """The same as `requests.actors`, for releases that do not know `requests`."""

    requested_at: Time | None = None
    """When `requests` was decided. RFC 3339 with microseconds."""

    busy_seconds: PodSeconds | None = None
    """Time that actors have worked, what was done again included. Unit: actor-seconds."""

    weights_version: Rounds | None = None
    """Version of the weights that actors sample with."""

    updated_at: Time | None = None
    """The learner's heartbeat. RFC 3339."""

    history: Annotated[list[HistoryEntry], Field(max_length=60)] | None = None
    """The last 60 rounds, oldest first."""


class ActorsStatus(StatusModel):
    """The actors' pods."""

    requested: Pods | None = None
    """Actors that the learner asked for."""

    granted: Pods | None = None
    """Actors that the operator allows now, within the platform's limit."""

    ready: Pods | None = None
    """Actor pods that are ready."""

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

    round: Rounds | None = None
    """Round after which it was written."""

    location: Word | None = None
    """Where it is: claim and path."""

    saved_at: Time | None = None
    """When it was written. RFC 3339."""


class PolicyStatus(StatusModel):
    """A policy of a run of several agents."""

    name: AgentName
    """Name of the policy: that of one of its agents."""

    agents: Annotated[list[AgentName], Field(max_length=MOST_AGENTS)] | None = None
    """The agents that it plays, at most 64 of them."""

    reward_mean: Number | None = None
    """Mean return of the last 20 training episodes of these agents."""

    convexity_ratio: Number | None = None
    """R_k of its objective."""


class SharingStatus(StatusModel):
    """Which agents share policies."""

    mode: Annotated[str, Field(max_length=64)] | None = None
    """spec.sharing.mode."""

    shared: bool | None = None
    """Whether agents share policies now."""

    groups: Pods | None = None
    """Policies that there are now; each plays a group of agents."""

    toggles: Count | None = None
    """How often sharing has begun or ended in the run."""

    round: Rounds | None = None
    """Round after which it last did."""

    message: Text | None = None
    """Why, and who shares with whom since then."""


class JobStatus(StatusModel):
    """State of the job."""

    phase: Literal["Pending", "Starting", "Running", "Suspended", "Succeeded", "Failed"] | None = None
    """The state in one word; the conditions say why."""

    conditions: Annotated[list[Condition], Field(max_length=16, json_schema_extra=BY_TYPE)] | None = None
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

    policies: Annotated[list[PolicyStatus], Field(max_length=MOST_AGENTS)] | None = None
    """The policies of a run of several agents, at most 64 of them."""

    sharing: SharingStatus | None = None
    """Which agents of a run of several agents share policies."""

    cost: CostStatus | None = None
    """Cost so far. Unit: US dollars."""

    checkpoint: CheckpointStatus | None = None
    """The newest checkpoint."""
