"""The rules of spec.scaling; see rules.py."""

from __future__ import annotations

from typing import Any

from nitro_api.base import Rule, declare
from nitro_api.scaling import Scaling

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
        cel="self.scaler != 'schedule' || has(self.schedule)",
        sentence="is required with scaler: schedule; give the actors of each round, such as [8, 16, 8]",
        holds=lambda scaling: scaling.scaler != "schedule" or scaling.schedule is not None,
    ),
    Rule(
        path="schedule",
        cel="self.scaler == 'schedule' || !has(self.schedule)",
        sentence="is only allowed with scaler: schedule; remove it or set scaler: schedule",
        holds=lambda scaling: scaling.scaler == "schedule" or scaling.schedule is None,
    ),
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
)


def _within(scaling: Any, actors: int | None) -> bool:
    """Whether `actors` lies in as much of the range as is given."""
    if actors is None:
        return True
    above = scaling.min_actors is None or scaling.min_actors <= actors
    return above and (scaling.max_actors is None or actors <= scaling.max_actors)
