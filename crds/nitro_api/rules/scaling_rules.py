"""The rules of spec.scaling; see job_rules.py."""

from __future__ import annotations

from typing import Any

from nitro_api.base import Rule, declare, set_to
from nitro_api.spec.job import JobSpec
from nitro_api.spec.scaling import Scaling


def _only_with(scaler: str, field: str, name: str) -> Rule:
    """The rule that a field, by its two names, is for one scaler."""
    return Rule(
        path=field,
        cel=f"{set_to('scaler', scaler)} || !has(self.{field})",
        sentence=f"is only allowed with scaler: {scaler}; remove it or set scaler: {scaler}",
        holds=lambda scaling: scaling.scaler == scaler or getattr(scaling, name) is None,
    )


declare(
    Scaling,
    Rule(
        path="minActors",
        cel="!has(self.minActors) || !has(self.maxActors) || self.minActors <= self.maxActors",
        sentence="must be at most maxActors; lower minActors or raise maxActors",
        holds=lambda scaling: (
            scaling.min_actors is None
            or scaling.max_actors is None
            or scaling.min_actors <= scaling.max_actors
        ),
    ),
    Rule(
        path="initialActors",
        cel="!has(self.initialActors) || ((!has(self.minActors) || self.minActors <= self.initialActors) "
        "&& (!has(self.maxActors) || self.initialActors <= self.maxActors))",
        sentence="must be from minActors to maxActors; change initialActors or the range",
        holds=lambda scaling: _within(scaling, scaling.initial_actors),
    ),
    Rule(
        path="schedule",
        cel=f"!{set_to('scaler', 'schedule')} || has(self.schedule)",
        sentence="is required with scaler: schedule; give the actors of each round, such as [8, 16, 8]",
        holds=lambda scaling: scaling.scaler != "schedule" or scaling.schedule is not None,
    ),
    _only_with("schedule", "schedule", "schedule"),
    Rule(
        path="schedule",
        cel="!has(self.schedule) || self.schedule.all(n, (!has(self.minActors) || self.minActors <= n) "
        "&& (!has(self.maxActors) || n <= self.maxActors))",
        sentence="must stay within minActors to maxActors; change the entries or the range",
        holds=lambda scaling: all(_within(scaling, n) for n in scaling.schedule or ()),
    ),
    Rule(
        path="initialActors",
        cel="!has(self.schedule) || !has(self.initialActors) || self.schedule.size() == 0 "
        "|| self.initialActors == self.schedule[0]",
        sentence="must be the schedule's first entry; remove initialActors",
        holds=lambda scaling: (
            not scaling.schedule
            or scaling.initial_actors is None
            or scaling.initial_actors == scaling.schedule[0]
        ),
    ),
    Rule(
        path="initialActors",
        cel=f"!{set_to('scaler', 'hydrozoa')} || !has(self.initialActors) || !has(self.minActors) "
        "|| self.initialActors == self.minActors",
        sentence="must be minActors with scaler: hydrozoa, which starts there; remove initialActors",
        holds=lambda scaling: (
            scaling.scaler != "hydrozoa"
            or scaling.initial_actors is None
            or scaling.min_actors in (None, scaling.initial_actors)
        ),
    ),
    Rule(
        path="agent",
        cel=f"!{set_to('scaler', 'minionsrl')} || has(self.agent)",
        sentence="is required with scaler: minionsrl; name the file that `nitro pretrain-scaler` writes",
        holds=lambda scaling: scaling.scaler != "minionsrl" or scaling.agent is not None,
    ),
    _only_with("minionsrl", "agent", "agent"),
    Rule(
        path="threshold",
        cel=f"{set_to('scaler', 'marless', 'random-score')} || !has(self.threshold)",
        sentence="is only allowed with scaler: marless or random-score; remove it or set scaler: marless",
        holds=lambda scaling: scaling.scaler in ("marless", "random-score") or scaling.threshold is None,
    ),
    Rule(
        path="window",
        cel=f"!{set_to('scaler', 'growth')} || !has(self.window) || self.window >= 4",
        sentence="must be at least 4 with scaler: growth, which compares its halves; raise it",
        holds=lambda scaling: scaling.scaler != "growth" or scaling.window is None or scaling.window >= 4,
    ),
    _only_with("efficient", "costRatio", "cost_ratio"),
    _only_with("efficient", "costs", "costs"),
    Rule(
        path="costRatio",
        cel="!has(self.costs) || self.costs != 'measured' || !has(self.costRatio)",
        sentence="is only allowed with costs: given, because costs: measured finds it; remove one of them",
        holds=lambda scaling: scaling.costs != "measured" or scaling.cost_ratio is None,
    ),
    Rule(
        path="normalise",
        cel="self.normalise != 'log' || self.mode in ['paper', 'artifact']",
        sentence="must be linear unless mode is paper or artifact, because what the others score can be "
        "negative; remove it",
        holds=lambda scaling: scaling.normalise != "log" or scaling.mode in ("paper", "artifact"),
    ),
)
declare(
    JobSpec,
    *(
        Rule(
            path=f"stop.{field}",
            cel=f"!{set_to('scaling.scaler', 'minionsrl')} || has(self.stop.{field})",
            sentence="is required with scaler: minionsrl, whose agent is to reach the target within the "
            "budget; give it, or choose another scaler",
            holds=lambda spec, name=name: (  # type: ignore[misc]
                spec.scaling.scaler != "minionsrl" or getattr(spec.stop, name) is not None
            ),
        )
        for field, name in (("targetReward", "target_reward"), ("budgetDollars", "budget_dollars"))
    ),
    Rule(
        path="scaling.scaler",
        cel=f"!{set_to('scaling.scaler', 'efficient')} || self.algorithm.name == 'ppo'",
        sentence="is efficient, which is only allowed with algorithm.name: ppo, because it knows ppo's noise "
        "and costs; choose another scaler",
        holds=lambda spec: spec.scaling.scaler != "efficient" or spec.algorithm.name == "ppo",
    ),
    Rule(
        path="stop.targetReward",
        cel=f"!{set_to('scaling.scaler', 'minionsrl-adapt')} "
        "|| (has(self.stop.targetReward) && self.stop.targetReward > 0.0)",
        sentence="must be above zero with scaler: minionsrl-adapt, which scales by the share of it that is "
        "reached; give it, or choose another scaler",
        holds=lambda spec: spec.scaling.scaler != "minionsrl-adapt" or (spec.stop.target_reward or 0) > 0,
    ),
)


def _within(scaling: Any, actors: int | None) -> bool:
    """Whether `actors` lies in the range, as far as the job gives it."""
    if actors is None:
        return True
    above = scaling.min_actors is None or scaling.min_actors <= actors
    return above and (scaling.max_actors is None or actors <= scaling.max_actors)
