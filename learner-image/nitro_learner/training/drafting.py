"""The draft of a round's report: all that is known before the round is scored."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

import numpy as np

from nitro_api import JobSpec
from nitro_api.costs.prices import RoundCost
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling import evaluation
from nitro_learner.sampling.plans import EvaluationResult, RoundResult
from nitro_learner.training.round_report import OF_UPDATES, PolicyReport, RoundCounters, RoundReport, mean_of
from nitro_learner.training.state import TrainingState
from nitro_learner.training.waiting import Stages

logger = logging.getLogger(__name__)


def draft(
    state: TrainingState,
    result: RoundResult,
    evaluated: EvaluationResult | None,
    finished: Sequence[float],
    groups: Mapping[str, tuple[str, ...]],
    stats: Mapping[str, Mapping[str, float]],
    stages: Stages,
    seconds: float,
    cost: RoundCost,
    own_cost: RoundCost,
    extra: Mapping[str, float | None],
    counters: RoundCounters,
) -> RoundReport:
    """The report of a round that is trained on but not yet scored: what will be measured is None.

    Args:
        finished: returns of the episodes that ended in the round.
        groups: the agents of each policy.
        cost: of the run so far.
        own_cost: of the round.
        extra: the columns that the job adds.
        counters: what is not known from the round's result.
    """
    sampled = result.stats
    returns = evaluated.returns.tolist() if evaluated else []
    played = evaluated.agent_means() if evaluated else {}
    return RoundReport(
        round=state.round,
        env_steps=state.env_steps,
        wall_seconds=state.seconds,
        reward_mean=state.reward_mean,
        reward_round=fmean(finished) if finished else None,
        cut_share=state.cut_share,
        evaluation_mean=fmean(returns) if returns else None,
        evaluation_std=pstdev(returns) if returns else None,
        actors=state.actors,
        next_actors=state.actors,
        lost=len(result.lost),
        retries=sum(sampled.retries.values()),
        cold_starts=sampled.cold_starts,
        fragment_bytes=sampled.bytes,
        cost_learner=cost.learner,
        cost_actors=cost.actors,
        cost_total=cost.total,
        seconds_dispatch=stages.of("dispatch"),
        seconds_sample=stages.of("sample"),
        seconds_update=stages.of("update"),
        seconds_detect=stages.of("detect"),
        seconds_evaluate=stages.of("evaluate"),
        seconds_checkpoint=stages.of("checkpoint"),
        seconds_total=seconds,
        seconds_overhead=_ninth_tenth(sampled.overhead_seconds),
        seconds_actor=fmean(sampled.billed_seconds) if sampled.billed_seconds else 0.0,
        episode_length=state.episode_length,
        policies={
            name: PolicyReport(
                state.policy_reward(name),
                groups[name],
                mean_of(played.get(agent) for agent in groups[name]),
                stats=values,
            )
            for name, values in stats.items()
        },
        cost_round=own_cost.total,
        extra=extra,
        **{name: mean_of(values.get(name) for values in stats.values()) for name in OF_UPDATES},
        counters=replace(
            counters,
            reward_std=state.reward_std,
            retried=sampled.retries,
            dropped=sampled.dropped,
            learned=len(result.fragments),
            late=sampled.late,
            staleness=result.staleness,
            deadline_misses=sampled.deadline_misses,
        ),
    )


def columns_of(spec: JobSpec) -> list[str]:
    """The columns of metrics.csv that a job adds to those of all."""
    return [*evaluation.columns(spec), *info_columns(spec)]


def info_columns(spec: JobSpec, fragments: Sequence[Fragment] = ()) -> dict[str, float | None]:
    """The columns of metrics.csv for spec.environment.infoMetrics: of each entry the mean over the steps of a
    round that had it; None where none had."""
    columns: dict[str, float | None] = {}
    for name in spec.environment.info_metrics or ():
        parts = [fragment.info[name] for fragment in fragments if name in fragment.info]
        total, count = np.sum(parts, axis=0) if parts else (0.0, 0.0)
        columns[f"info_{name}"] = float(total / count) if count else None
    if any(part.meta["round"] == 1 and len(part.tensors["episode_lengths"]) for part in fragments):
        _warn_of_missing(columns)
    return columns


def _warn_of_missing(columns: Mapping[str, float | None]) -> None:
    """Warn of entries that no step of the first round had, though episodes have ended: it may be a typing
    mistake."""
    for name in (name for name, mean in columns.items() if mean is None):
        logger.warning(
            "spec.environment.infoMetrics: no step of the first round had %r in its info, so the column %s "
            "is empty so far",
            name.removeprefix("info_"),
            name,
        )


def _ninth_tenth(values: Sequence[float]) -> float | None:
    """The smallest value that nine tenths of them do not exceed."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else None
