"""The report of a round, and the interface of the listeners that receive it.

Listeners are the run folder, the live table, Prometheus and, in a cluster, the job's status.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from nitro_learner.training.costs import ActorWork

if TYPE_CHECKING:
    from nitro_api.costs.pod_use import PodUse
    from nitro_api.costs.prices import RoundCost
    from nitro_learner.training.needs import ActorNeed
    from nitro_learner.training.sharing.toggles import Regrouping
    from nitro_learner.training.stop import Forecast

Row = Mapping[str, float | None]
"""A row of metrics.csv as numbers; None is an empty cell."""

_DECIDING = ("kl", "entropy", "value_loss", "policy_loss", "explained_variance", "advantage_std")
"""Statistics of an update that a scaler may decide by."""

OF_UPDATES = (*_DECIDING, "learning_rate", "clip_fraction", "gradient_norm")
"""Columns with the means of the policies' updates."""

STATISTICS = (
    "convexity_ratio",
    "lambda_min",
    "lambda_max",
    "gradient_signal",
    "gradient_noise",
    "gradient_snr",
    *_DECIDING,
)
"""Columns that a scaler may decide by."""

STAGES = ("dispatch", "sample", "update", "detect", "evaluate", "checkpoint", "total")


@dataclass(frozen=True)
class PolicyReport:
    """One policy in a round's report. None stands for what was not measured.

    Attributes:
        reward_mean: mean return of the last 20 episodes of the agents that it plays.
        evaluation_mean: mean return of these agents in the evaluation that belongs to the round.
        convexity_ratio: R_k of its objective.
        score: its boosting score, of a scaler that has one for each policy.
        wanted_actors: the actors that it asked for by this score, not rounded.
        stats: of its update; see `UpdateResult`.
    """

    reward_mean: float | None
    agents: tuple[str, ...] = ()
    evaluation_mean: float | None = None
    convexity_ratio: float | None = None
    score: float | None = None
    wanted_actors: float | None = None
    stats: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundCounters:
    """What metrics and displays show of a round beside its row.

    Attributes:
        reward_std: of the same episodes as the row's `reward_mean`.
        retried: requests that were sent again, by reason.
        dropped: messages that were no fragment of the round, by reason.
        learned: rollouts that the round learned from.
        late: those that had to wait for an actor.
        work: what actors have done in the run so far.
        staleness: versions by which the oldest fragment was behind.
        deadline_misses: rollouts that a deadline ended.
        detector_seconds: processor time of the measurements; None where there were none.
        detector_failed: whether something that the scaler asked for could not be measured.
        ratio_wanted: whether the scaler asks for `convexity_ratio`, which is also measured where sharing
            toggles.
        weights_version: of the weights which the round has made.
        forecast: how far the run is; None where nobody has said it.
        pods: what the actors' pods have used in the run so far.
    """

    reward_std: float | None = None
    retried: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    learned: int = 0
    late: int = 0
    work: ActorWork = field(default_factory=ActorWork)
    staleness: int = 0
    deadline_misses: int = 0
    detector_seconds: float | None = None
    detector_failed: bool = False
    ratio_wanted: bool = True
    weights_version: int = 0
    forecast: Forecast | None = None
    pods: PodUse | None = None


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """One row of metrics.csv. None is an empty cell: not measured in this round.

    Rewards are undiscounted episode returns. `cut_share` is the share of the last ten rounds' steps that
    belong to episodes which a rollout's end cut off for good. `evaluation_*` belong to the policy that this
    round sampled with, played by mean actions, so they compare with `reward_round`. `seconds_*` are what the
    round waited for a stage; stages that run beside others (detector, evaluation, checkpoint) count only
    where the round stood still. `seconds_actor` is the mean duration of an invocation that sampled;
    `seconds_overhead` is what nine tenths of the requests took at most beyond the actor's own time:
    queueing in front of it, a cold start, transfer. `episode_length` is the mean of the same episodes as
    `reward_mean`; `gradient_norm` that of the round's gradient steps, before they are clipped.
    """

    round: int
    env_steps: int
    wall_seconds: float
    reward_mean: float | None
    reward_round: float | None
    cut_share: float | None
    evaluation_mean: float | None
    evaluation_std: float | None
    actors: int
    next_actors: int
    boosting_score: float | None = None
    convexity_ratio: float | None = None
    lambda_min: float | None = None
    lambda_max: float | None = None
    gradient_signal: float | None = None
    gradient_noise: float | None = None
    gradient_snr: float | None = None
    lost: int
    retries: int
    cold_starts: int
    fragment_bytes: int
    cost_learner: float
    cost_actors: float
    cost_total: float
    seconds_dispatch: float
    seconds_sample: float
    seconds_update: float
    seconds_detect: float
    seconds_evaluate: float
    seconds_checkpoint: float
    seconds_total: float
    seconds_overhead: float | None
    seconds_actor: float
    kl: float | None = None
    entropy: float | None = None
    value_loss: float | None = None
    policy_loss: float | None = None
    explained_variance: float | None = None
    advantage_std: float | None = None
    episode_length: float | None = None
    learning_rate: float | None = None
    clip_fraction: float | None = None
    gradient_norm: float | None = None
    cost_round: float = 0.0
    # Further columns of metrics.csv, which depend on the job.
    extra: Mapping[str, float | None] = field(default_factory=dict)
    # Not in metrics.csv.
    policies: Mapping[str, PolicyReport] = field(default_factory=dict)
    counters: RoundCounters = field(default_factory=RoundCounters)

    @property
    def ready(self) -> int:
        """The slots that did not wait for an actor. In an off-policy round some go on with an earlier round's
        rollout."""
        return max(0, self.actors - self.counters.late - self.lost)

    def row(self) -> dict[str, Any]:
        """The columns of metrics.csv, in order."""
        return {name: getattr(self, name) for name in COLUMNS} | dict(self.extra)

    def statistics(self) -> dict[str, float]:
        """Statistics of the round's data and update, by column; only finite ones."""
        values = {name: getattr(self, name) for name in STATISTICS}
        return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}

    def stages(self) -> dict[str, float]:
        """Seconds per stage."""
        return {stage: getattr(self, f"seconds_{stage}") for stage in STAGES}


COLUMNS: tuple[str, ...] = tuple(
    item.name for item in fields(RoundReport) if item.name not in ("extra", "policies", "counters")
)


@dataclass(frozen=True)
class Outcome:
    """How a run, or this sitting of it, ended.

    Attributes:
        reason: a word for programs: TargetReached, NoBetterEvaluation, BudgetSpent, RoundsDone,
            ActorRoundsDone, EnvStepsDone, TimeUp, CallbackStopped, or Interrupted.
        finished: a stop condition held; False = it was interrupted and `--resume` goes on.
        cost: of the run so far, the evaluation at the end included.
        work: what actors have done in the run so far.
        pods: what their pods have used, as far as it was measured; None where there are none.
        drain_seconds: estimate of the time for which they exist after the end. Unit: pod-seconds.
        paid_pod_seconds: what the run has paid so far, that estimate included; None where there are no pods.
        estimated: US dollars of `cost` that pay for that estimate.
        repeated: US dollars of it that went into rounds that were done again after a crash.
        evaluation: episode returns of the final policies by mean actions, summed over the agents; empty when
            not finished.
        agent_evaluation: each agent's mean return in these episodes.
        class_evaluation: each agent class's, summed over its agents.
        evaluation_sets: mean return of each named set of episodes; the first of them is `evaluation`.
    """

    reason: str
    message: str
    finished: bool
    rounds: int
    cost: RoundCost
    repeated: float
    evaluation: tuple[float, ...] = ()
    agent_evaluation: Mapping[str, float] = field(default_factory=dict)
    class_evaluation: Mapping[str, float] = field(default_factory=dict)
    evaluation_sets: Mapping[str, float] = field(default_factory=dict)
    work: ActorWork = field(default_factory=ActorWork)
    pods: PodUse | None = None
    paid_pod_seconds: float | None = None
    drain_seconds: float = 0.0
    estimated: float = 0.0


class Listener:
    """The base class of what receives a run's events.

    The learner's event loop calls the methods, so each must return at once. By default they do nothing. What
    they raise is a warning, and the run goes on.

    The order of the calls: `on_run_started`, then `on_round_requested` for the first round of this sitting;
    in each round `on_policies_regrouped` first, where sharing has toggled, `on_stage_started` for each stage,
    `on_round_done` as soon as the scaler has decided, and then `on_cache_measured`; `on_checkpoint_saved`
    or `on_checkpoint_missed` after a checkpoint; and at the end `on_run_ended`.
    `on_need_changed` comes at any time.

    Attributes:
        essential: whether the run cannot go on without this listener, because it writes what a resumed run
            needs. What it raises ends the run.
    """

    essential: ClassVar[bool] = False

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:
        """The run starts or goes on after `round`; `history` holds metrics.csv's rows up to it."""

    def on_round_requested(self, *, round: int, actors: int) -> None:
        """The first round of this sitting, `round`, will sample with `actors` actors."""

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:
        """The loop entered a stage of round `round`, "sample", "update" or "final" (for live displays)."""

    def on_need_changed(self, need: ActorNeed) -> None:
        """The run needs other actors than before, now or later."""

    def on_round_done(self, report: RoundReport) -> None:
        """A round is complete: updated, scored, and the next one's actors decided (`report.next_actors`)."""

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        """Agents share policies from the round on that begins now, or each has its own again. A run that goes
        on from the checkpoint before that round says so again."""

    def on_cache_measured(self, *, used: int, limit: int) -> None:
        """The cache uses so many bytes while the next round samples; limit 0 = none."""

    def on_checkpoint_saved(self, *, round: int, location: str) -> None:
        """The run can go on from a checkpoint of `round`."""

    def on_checkpoint_missed(self, *, round: int, why: str) -> None:
        """A checkpoint of `round` is on this machine's disk alone, and not in the bucket that keeps the run.
        The next one brings it there; until then the run goes on from an earlier one if this machine is
        lost."""

    def on_tracking_failed(self, *, tracker: str) -> None:
        """An experiment tracker, "wandb" or "mlflow", could not be written; the training goes on."""

    def on_run_ended(self, outcome: Outcome) -> None:
        """The run ended, or was interrupted."""


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is. Of a single value it is that value."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
