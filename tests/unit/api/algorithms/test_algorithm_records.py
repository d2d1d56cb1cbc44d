"""What derives from the algorithms' records: the settings' models, rules, presets and documentation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_api import JobInvalid, load_job, resolve
from nitro_api.algorithms import impact, ppo
from nitro_api.algorithms.impact import ImpactHyperparameters
from nitro_api.algorithms.record import COLUMNS, AlgorithmRecord, Hyperparameters, path_of, presets
from nitro_api.algorithms.registry import ALL, RECORDS, listed, owners_of, settings_of
from nitro_api.base import resolved
from nitro_api.schema.explain import explain
from nitro_api.schema.openapi import schema_at
from nitro_api.spec.algorithm import Algorithm

RESOLVED = yaml.safe_load((Path(__file__).parent / "resolved_algorithms.yaml").read_text())
SETTINGS = sorted({setting for record in RECORDS.values() for setting in settings_of(record)})
HYPER = "spec.algorithm.hyperparameters"


def job(**algorithm: Any) -> dict[str, Any]:
    """A job of an environment with as many agents as the algorithm learns."""
    several = RECORDS[algorithm.get("name", "ppo")].agents == "several"
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "job"},
        "spec": {
            "environment": {"id": "mpe2/simple_spread_v3" if several else "Hopper-v5"},
            "algorithm": algorithm,
        },
    }


def check(*records: AlgorithmRecord) -> None:
    """Check the records against each other.

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


def explained(path: str) -> str:
    """What `nitro explain` says, in one line."""
    return " ".join(explain(path).split())


def value_of(setting: str) -> Any:
    """A value that the setting takes."""
    schema = schema_at(("spec", "algorithm", "hyperparameters", setting)) or {}
    return True if schema["type"] == "boolean" else schema.get("enum", [1])[0]


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record.settings != "rllib"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_an_algorithm_takes_its_own_settings_and_refuses_those_of_others(name: str, setting: str) -> None:
    source = job(name=name, hyperparameters={setting: value_of(setting)})
    if RECORDS[name].agents == "several":
        source["spec"]["environment"]["id"] = "mine/cooperation_v0"
    owners = owners_of(setting, RECORDS)
    if name in owners:
        load_job(source)
        return
    with pytest.raises(JobInvalid) as refused:
        load_job(source)
    (error,) = refused.value.errors
    assert error.path == f"{HYPER}.{setting}"
    assert error.message == (
        f"is a setting of {listed(owners, 'and')}, not of {name}; "
        f"remove it or set name: {listed(owners, 'or')}"
    )


def test_a_resolved_job_has_the_model_of_its_algorithm() -> None:
    settings = resolve(load_job(job(name="impact"))).spec.algorithm.hyperparameters
    assert isinstance(settings, ImpactHyperparameters)
    assert not hasattr(settings, "value_clip")


def test_settings_may_be_given_as_a_model() -> None:
    settings = ImpactHyperparameters(buffer_uses=3)
    assert Algorithm(name="impact", hyperparameters=settings).hyperparameters == settings


@pytest.mark.parametrize("stored", RESOLVED, ids=lambda stored: f"{stored['name']} {stored['preset']}")
def test_a_job_that_release_0_1_resolved_loads_and_means_the_same(stored: dict[str, Any]) -> None:
    again = resolve(load_job(job(**stored)))
    assert again.spec.algorithm.to_dict() == stored
    assert again == resolve(load_job(job(name=stored["name"], preset=stored["preset"])))


def test_explain_names_the_algorithms_that_have_a_setting() -> None:
    assert "Algorithms: impact. Default:" in explained("bufferUses")
    assert f"Algorithms: {', '.join(owners_of('gamma', RECORDS))}. Default:" in explained("gamma")
    assert "Rule: is a setting of ppo, ippo and mappo, not of other algorithms" in explained("valueClip")


def test_explain_shows_what_each_algorithm_does() -> None:
    text = explained("spec.algorithm.name")
    assert all(f"`{name}`" in text and record.summary in text for name, record in RECORDS.items())


class Narrow(Hyperparameters):
    gamma: float = resolved(ge=0, le=0.5)


class Own(Hyperparameters):
    exploration: float = resolved(ge=0, le=1)


def record(model: type[Hyperparameters], *rows: tuple[str, Any, Any]) -> AlgorithmRecord:
    return AlgorithmRecord("toy", "is a toy", model, "rounds", presets(rows))


def test_the_records_of_all_algorithms_fit_each_other() -> None:
    check(*ALL)


def test_a_name_cannot_be_registered_twice() -> None:
    with pytest.raises(ValueError, match="two algorithms have the name ppo"):
        check(ppo.RECORD, replace(impact.RECORD, name="ppo"))


def test_algorithms_must_declare_a_shared_setting_equally() -> None:
    with pytest.raises(ValueError, match="ppo and toy declare the hyperparameter gamma differently"):
        check(ppo.RECORD, record(Narrow, ("gamma", 0.1, 0.2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (record(Own), "toy has no value of exploration in its preset paper"),
        (record(Own, ("exploration", 2.0, 0.1)), "less than or equal to 1"),
        (record(Own, ("exploration", 0.1, 0.1), ("exploitation", 1, 1)), "exploitation"),
        (replace(record(Own), presets={}), "toy has no preset paper"),
    ],
)
def test_presets_must_fit_the_settings(wrong: AlgorithmRecord, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(ppo.RECORD, wrong)
