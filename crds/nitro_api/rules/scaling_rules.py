"""The rules of spec.scaling; see job_rules.py."""

from nitro_api.algorithms.registry import listed
from nitro_api.base import Rule, declare, matching, set_to
from nitro_api.rules.job_rules import ENTRY_POINT
from nitro_api.scalers import ALL, OWN, having
from nitro_api.spec.job import GivenSpec
from nitro_api.spec.scaling import GivenScaling


def _required(field: str, remedy: str) -> Rule:
    """The rule that the scaler which needs a field has it."""
    (scaler,) = (record.name for record in ALL if field in record.required)
    return Rule(
        path=field,
        cel=f"!{set_to('scaler', scaler)} || has(self.{field})",
        sentence=f"is required with scaler: {scaler}; {remedy}",
    )


def _own(field: str) -> Rule:
    """The rule that only scalers which have a field allow it."""
    names = having(field)
    return Rule(
        path=field,
        cel=f"{set_to('scaler', *names)} || !has(self.{field})",
        sentence=f"is only allowed with scaler: {listed(names, 'or')}; remove it or set scaler: {names[0]}",
    )


declare(
    GivenScaling,
    Rule(
        path="minActors",
        cel="!has(self.minActors) || !has(self.maxActors) || self.minActors <= self.maxActors",
        sentence="must be at most maxActors; lower minActors or raise maxActors",
    ),
    Rule(
        path="initialActors",
        cel="!has(self.initialActors) || ((!has(self.minActors) || self.minActors <= self.initialActors) "
        "&& (!has(self.maxActors) || self.initialActors <= self.maxActors))",
        sentence="must be from minActors to maxActors; change initialActors or the range",
    ),
    _required("schedule", "give the actors of each round, such as [8, 16, 8]"),
    _own("schedule"),
    Rule(
        path="schedule",
        cel="!has(self.schedule) || self.schedule.all(n, (!has(self.minActors) || self.minActors <= n) "
        "&& (!has(self.maxActors) || n <= self.maxActors))",
        sentence="must stay within minActors to maxActors; change the entries or the range",
    ),
    Rule(
        path="initialActors",
        cel="!has(self.schedule) || !has(self.initialActors) || self.schedule.size() == 0 "
        "|| self.initialActors == self.schedule[0]",
        sentence="must be the schedule's first entry; remove initialActors",
    ),
    Rule(
        path="initialActors",
        cel=f"!{set_to('scaler', 'hydrozoa')} || !has(self.initialActors) || !has(self.minActors) "
        "|| self.initialActors == self.minActors",
        sentence="must be minActors with scaler: hydrozoa, which starts there; remove initialActors",
    ),
    _required("agent", "name the file that `nitro pretrain-scaler` writes"),
    _own("agent"),
    _own("threshold"),
    Rule(
        path="window",
        cel=f"!{set_to('scaler', 'growth')} || !has(self.window) || self.window >= 4",
        sentence="must be at least 4 with scaler: growth, which compares its halves; raise it",
    ),
    _own("costRatio"),
    _own("costs"),
    Rule(
        path="costRatio",
        cel="!has(self.costs) || self.costs != 'measured' || !has(self.costRatio)",
        sentence="is only allowed with costs: given, because costs: measured finds it; remove one of them",
    ),
    _required("entryPoint", "name your class, such as my_package.scalers:Plateau"),
    matching("entryPoint", ENTRY_POINT, "must be module:Class; write it as my_package.scalers:Plateau"),
    Rule(
        path="entryPoint",
        cel=f"!has(self.scaler) || self.scaler == '{OWN}' || !has(self.entryPoint)",
        sentence=f"is only allowed with scaler: {OWN}, its default; remove it or scaler",
    ),
    Rule(
        path="settings",
        # CEL reads arbitrary JSON only through dyn(), as in algorithm_rules.py.
        cel="has(self.entryPoint) || !has(dyn(self).settings)",
        sentence="is only allowed with entryPoint, whose class gets them; remove it or name the class",
    ),
    Rule(
        path="normalise",
        cel="self.normalise != 'log' || self.mode in ['paper', 'artifact']",
        sentence="must be linear unless mode is paper or artifact, because what the others score can be "
        "negative; remove it",
    ),
)
declare(
    GivenSpec,
    *(
        Rule(
            path=f"stop.{field}",
            cel=f"!{set_to('scaling.scaler', 'minionsrl')} || has(self.stop.{field})",
            sentence="is required with scaler: minionsrl, whose agent is to reach the target within the "
            "budget; give it, or choose another scaler",
        )
        for field in ("targetReward", "budgetDollars")
    ),
    Rule(
        path="scaling.scaler",
        cel=f"!{set_to('scaling.scaler', 'efficient')} || self.algorithm.name == 'ppo'",
        sentence="is efficient, which is only allowed with algorithm.name: ppo, because it knows ppo's noise "
        "and costs; choose another scaler",
    ),
    Rule(
        path="stop.targetReward",
        cel=f"!{set_to('scaling.scaler', 'minionsrl-adapt')} "
        "|| (has(self.stop.targetReward) && self.stop.targetReward > 0.0)",
        sentence="must be above zero with scaler: minionsrl-adapt, which scales by the share of it that is "
        "reached; give it, or choose another scaler",
    ),
)
