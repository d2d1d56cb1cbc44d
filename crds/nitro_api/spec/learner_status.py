"""What the learner reports in a job's status: `training`, `progress`, `policies`, `sharing` and `cost`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nitro_api.spec.status_fields import (
    Count,
    Dollars,
    Number,
    Pods,
    PodSeconds,
    Rounds,
    Score,
    Seconds,
    StatusModel,
    Text,
    Time,
    Word,
)

ACTORS_SILENT = "ActorsSilent"
"""training.reason of a running job none of whose actors has answered yet."""

CHECKPOINT_MISSED = "CheckpointMissed"
"""training.reason of a running job whose bucket lacks its newest checkpoint."""

ROLLOUTS_CUT = "RolloutsCut"
"""training.reason of a running job whose last round had rollouts that took longer than the job allows."""

ENVIRONMENT_SOUND, ENVIRONMENT_FAULTY, NOT_CHECKED = "EnvironmentSound", "EnvironmentFaulty", "NotChecked"
"""Values of training.check."""

NO_CHECK = "nitro.dev/no-check"
"""Annotation of a job whose environment is not checked, where it is \"true\"."""

MOST_AGENTS = 64
"""Of agents, and of policies, that a status names."""
AgentName = Annotated[str, Field(min_length=1, max_length=64)]


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

    waves: Seconds | None = None
    """Time of the round's sampling over the mean time of a rollout: about 1 where all actors sampled at
    once."""

    cost: Dollars | None = None
    """Cost of the run up to and including the round. Unit: US dollars."""


class LaterNeed(StatusModel):
    """Actors that the learner expects to need later."""

    after_seconds: Seconds
    """Time from training.neededAt on. Unit: seconds."""

    actors: Pods
    """Actors that it expects to need from then on."""


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

    learning_rate_anneal: bool | None = None
    """Whether the run's learning rate falls, as when it began."""

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

    needs_now: Pods | None = None
    """Actors that it uses now: the first of status.actors.addresses. While it learns, they are fewer than
    those of `requests`."""

    needs_later: Annotated[list[LaterNeed], Field(max_length=8)] | None = None
    """When it expects to need more, in order."""

    needed_at: Time | None = None
    """When needsNow and needsLater were decided. RFC 3339 with microseconds."""

    former_run: Annotated[str, Field(max_length=128)] | None = None
    """Folder of an older run of this name, beside the run's own."""

    busy_seconds: PodSeconds | None = None
    """Time that actors have worked, what was done again included. Unit: actor-seconds."""

    weights_version: Rounds | None = None
    """Version of the weights that actors sample with."""

    updated_at: Time | None = None
    """The learner's heartbeat. RFC 3339."""

    check: Word | None = None
    """What the check of the environment came to: EnvironmentSound, EnvironmentFaulty or NotChecked."""

    check_message: Text | None = None
    """What it has found, in sentences."""

    history: Annotated[list[HistoryEntry], Field(max_length=60)] | None = None
    """The last 60 rounds, oldest first."""


class ProgressStatus(StatusModel):
    """How far the run is, as far as that can be foreseen."""

    percent: Annotated[float, Field(ge=0, le=100)] | None = None
    """Done of the stop condition that ends it. Unit: percent."""

    by: Word | None = None
    """That condition: a field of spec.stop."""

    eta_seconds: Count | None = None
    """Until that condition holds, as the last finished round had it. Unit: seconds."""


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


class CostStatus(StatusModel):
    """Cost of the run so far. Unit: US dollars."""

    learner: Dollars | None = None
    """The learner's machine."""

    actors: Dollars | None = None
    """Actor pods or invocations."""

    total: Dollars | None = None
    """Both."""

    estimated: Dollars | None = None
    """Expected cost of pods that are still going, not in `total`. It is charged when the last one is gone."""

    pod_seconds: PodSeconds | None = None
    """Pod-seconds that `actors` pays."""

    vcpu_seconds: PodSeconds | None = None
    """vCPU-seconds that `actors` pays."""
