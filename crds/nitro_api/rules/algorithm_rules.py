"""The rules across the fields of spec.algorithm, which follow from the algorithms' records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nitro_api.algorithms.record import COLUMNS, AlgorithmRecord
from nitro_api.algorithms.registry import (
    RECORDS,
    TEAM_RECORDS,
    listed,
    owners_of,
    presets_of,
    settings_of,
)
from nitro_api.base import Rule, declare, matching
from nitro_api.rules.job_rules import ENTRY_POINT
from nitro_api.spec.algorithm import AgentsAlgorithm, Algorithm


def rules(records: Mapping[str, AlgorithmRecord]) -> Iterator[Rule]:
    """The rules of spec.algorithm for these algorithms."""
    settings = _settings(records)
    theirs = [name for name, record in records.items() if record.settings == "rllib"]
    yield Rule(
        path="rllib",
        # CEL has no type for arbitrary JSON, so it can read such a field only through dyn().
        cel=f"!has(dyn(self).rllib) || {_among(theirs)}",
        sentence="is only allowed with a name that begins with rllib/; remove it or change the name",
    )
    unset = " && ".join(f"!has(self.hyperparameters.{setting})" for setting in settings)
    yield Rule(
        path="hyperparameters",
        cel=f"!({_among(theirs)}) || !has(self.hyperparameters) || ({unset})",
        sentence="is not for the algorithms of RLlib; move the settings to rllib, under RLlib's names",
    )
    for preset in presets_of(records):
        holders = [name for name, record in records.items() if preset in record.presets]
        if len(holders) < len(records):
            yield _preset_rule(preset, holders)
    ours = [name for name in records if name not in theirs]
    for setting in settings:
        owners = owners_of(setting, records)
        if len(owners) < len(ours):
            yield _setting_rule(setting, owners, [*owners, *theirs])
    yield from _own_rules(records.values())
    alone = [name for name in ours if records[name].agents == "one"]
    yield Rule(
        path="entryPoint",
        cel=f"!has(self.entryPoint) || {_among(alone)}",
        sentence="is only allowed with an algorithm of one agent that is not RLlib's, because name says what "
        "your class learns from; set name: ppo",
    )


def entry_rules(records: Mapping[str, AlgorithmRecord]) -> Iterator[Rule]:
    """The rules of an entry of spec.algorithm.policies for these algorithms, which are all of several
    agents."""
    for setting in _settings(records):
        owners = owners_of(setting, records)
        if len(owners) < len(records):
            yield _setting_rule(setting, owners, owners)
    yield from _own_rules(records.values())


def _settings(records: Mapping[str, AlgorithmRecord]) -> list[str]:
    """The hyperparameters of all of these algorithms, each once."""
    return list(dict.fromkeys(name for record in records.values() for name in settings_of(record)))


def _preset_rule(preset: str, holders: Sequence[str]) -> Rule:
    names = listed(holders, "or")
    return Rule(
        path="preset",
        cel=f"self.preset != '{preset}' || {_among(holders)}",
        sentence=f"must be {listed(COLUMNS, 'or')}, as {preset} is for {names}; "
        f"choose one or set name: {names}",
    )


def _setting_rule(setting: str, owners: Sequence[str], takers: Sequence[str]) -> Rule:
    """A setting is refused by algorithms without it; those of RLlib refuse the whole block already."""
    start, end = (
        f"is a setting of {listed(owners, 'and')}, not of",
        f"remove it or set name: {listed(owners, 'or')}",
    )
    return Rule(
        path=f"hyperparameters.{setting}",
        cel=f"{_among(takers)} || !has(self.hyperparameters.{setting})",  # the block has a default
        sentence=f"{start} other algorithms; {end}",
        exact=f"{start} {{name}}; {end}",
    )


def _own_rules(records: Iterable[AlgorithmRecord]) -> Iterator[Rule]:
    """The algorithms' own rules; each holds for its algorithm only."""
    for record in records:
        for rule in record.rules:
            yield replace(
                rule,
                cel=f"self.name != '{record.name}' || ({rule.cel})",
            )


def _among(names: Sequence[str]) -> str:
    """In CEL: whether the algorithm is one of those."""
    return f"self.name == '{names[0]}'" if len(names) == 1 else f"self.name in {list(names)}"


_GLOB = "^[A-Za-z0-9*?][A-Za-z0-9._*?-]*$"

declare(
    Algorithm,
    *rules(RECORDS),
    matching("entryPoint", ENTRY_POINT, "must be module:Class; write it as my_package.algorithms:A2C"),
    Rule(
        path="settings",
        cel="has(self.entryPoint) || !has(dyn(self).settings)",
        sentence="is only allowed with entryPoint, whose class gets them; remove it or name the class",
    ),
    Rule(
        path="policies",
        cel="!has(self.policies) || self.policies.all(p, self.policies.exists_one(q, q.agents == p.agents))",
        sentence="must name agents once; remove one of two entries with the same text in agents",
    ),
)
declare(
    AgentsAlgorithm,
    matching(
        "agents",
        _GLOB,
        "must be the name of an agent, or a pattern with * and ?; write it as adversary_0 or adversary_*",
    ),
    *entry_rules(TEAM_RECORDS),
)
