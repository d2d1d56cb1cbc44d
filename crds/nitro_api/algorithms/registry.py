"""The records of all learning algorithms by name, and what follows from all of them together."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from nitro_api.algorithms import impact, multi_ppo, ppo, q_actor_critic, q_learning, rllib
from nitro_api.algorithms.record import COLUMNS, AlgorithmRecord, Hyperparameters
from nitro_api.base import Model


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
    *q_actor_critic.RECORDS,
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
