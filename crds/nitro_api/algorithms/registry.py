"""The records of all learning algorithms by name, and what follows from all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from nitro_api.algorithms import impact, multi_ppo, ppo, q_learning, rllib
from nitro_api.algorithms.record import COLUMNS, AlgorithmRecord, Hyperparameters, path_of
from nitro_api.base import Model


def check(*records: AlgorithmRecord) -> None:
    """Check the records against each other. Only a test calls it, because it would slow every import down.

    Raises:
        ValueError: two records have one name or declare one setting differently, or a preset of a record is
            missing or does not fit its settings.
    """
    names: set[str] = set()
    declared: dict[str, tuple[str, dict[str, Any]]] = {}
    for record in records:
        if record.name in names:
            raise ValueError(f"two algorithms have the name {record.name}; rename one")
        names.add(record.name)
        for setting, schema in _schemas(record.hyperparameters).items():
            first, expected = declared.setdefault(setting, (record.name, schema))
            if schema != expected:
                raise ValueError(
                    f"{first} and {record.name} declare the hyperparameter {setting} differently: {expected} "
                    f"and {schema}; give both the type and the widest bounds, and the narrower one a rule"
                )
        _check_presets(record)


def _schemas(model: type[Hyperparameters]) -> dict[str, Any]:
    """The JSON schema of each setting without its description."""
    properties = model.model_json_schema(by_alias=True).get("properties", {})
    return {
        setting: {key: value for key, value in schema.items() if key not in ("description", "title")}
        for setting, schema in properties.items()
    }


def _check_presets(record: AlgorithmRecord) -> None:
    lacking = [name for name in COLUMNS if name not in record.presets]
    if lacking:
        raise ValueError(
            f"{record.name} has no preset {lacking[0]}; every algorithm has {', '.join(COLUMNS)}"
        )
    prefix = path_of("", "hyperparameters")
    for name, preset in record.presets.items():
        for special in ({}, preset.atari, preset.conv):
            values = {
                path.removeprefix(prefix): value
                for path, value in {**preset.usual, **special}.items()
                if path.startswith(prefix)
            }
            record.hyperparameters.model_validate({key: v for key, v in values.items() if v is not None})
            missing = [setting for setting in settings_of(record) if setting not in values]
            if missing:
                raise ValueError(f"{record.name} has no value of {missing[0]} in its preset {name}; add it")


def settings_of(record: AlgorithmRecord) -> list[str]:
    """The camelCase names of an algorithm's hyperparameters."""
    return [field.alias or name for name, field in record.hyperparameters.model_fields.items()]


def owners_of(setting: str, records: Mapping[str, AlgorithmRecord]) -> list[str]:
    """The names of the algorithms that have a hyperparameter."""
    return [name for name, record in records.items() if setting in settings_of(record)]


def union_of(records: Mapping[str, AlgorithmRecord], name: str) -> type[Model]:
    """A model of that name with the settings of all algorithms."""
    fields: dict[str, Any] = {}
    for record in records.values():
        for setting, field in record.hyperparameters.model_fields.items():
            fields.setdefault(setting, (field.annotation, copy(field)))
    return create_model(name, __base__=Model, __doc__="Settings of several algorithms.", **fields)


def of_several_agents(records: Mapping[str, AlgorithmRecord]) -> dict[str, AlgorithmRecord]:
    """The records of algorithms whose environments have several agents."""
    return {name: record for name, record in records.items() if record.agents == "several"}


def presets_of(records: Mapping[str, AlgorithmRecord]) -> tuple[str, ...]:
    """The names of all presets, those that every algorithm has first."""
    return tuple(dict.fromkeys((*COLUMNS, *(name for record in records.values() for name in record.presets))))


def described(records: Mapping[str, AlgorithmRecord]) -> str:
    """What each algorithm does, in one text."""
    groups: dict[str, list[str]] = {}
    for record in records.values():
        groups.setdefault(record.summary, []).append(f"`{record.name}`")
    return "; ".join(f"{', '.join(names)}: {summary}" for summary, names in groups.items())


def listed(names: Sequence[str], conjunction: str) -> str:
    """`a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} {conjunction} {last}" if first else last


ALL = (
    ppo.RECORD,
    impact.RECORD,
    *multi_ppo.RECORDS,
    *q_learning.RECORDS,
    *rllib.RECORDS,
)
"""In the order in which they are listed."""

RECORDS: dict[str, AlgorithmRecord] = {record.name: record for record in ALL}
"""By spec.algorithm.name."""

TEAM_RECORDS = of_several_agents(RECORDS)
"""Those of them whose environments have several agents."""

if TYPE_CHECKING:
    AlgorithmName = str
    PresetName = str
    TeamAlgorithmName = str
    AnyHyperparameters = Hyperparameters
    TeamHyperparameters = Hyperparameters
else:
    AlgorithmName = Literal[tuple(RECORDS)]
    PresetName = Literal[presets_of(RECORDS)]
    TeamAlgorithmName = Literal[tuple(TEAM_RECORDS)]
    AnyHyperparameters = union_of(RECORDS, "AnyHyperparameters")
    TeamHyperparameters = union_of(TEAM_RECORDS, "TeamHyperparameters")
