"""From what a search proposes to the runs of a trial, and the mistakes in its space."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from nitro_api import FieldError, JobInvalid
from nitro_api.errors import ABSENT
from nitro_api.loading.job_file import set_field
from nitro_api.schema.wording import value_at
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.search_spec import Parameter, Search
from nitro_experiments.planning.spec import DEFAULT, Experiment


def name_of(number: int) -> str:
    """A trial's name, which its variant has as well."""
    return f"trial-{number}"


def trial_runs(experiment: Experiment, number: int, settings: Mapping[str, Any]) -> list[PlannedRun]:
    """The runs of a trial, in the order of the search's seeds.

    Args:
        settings: fields of the job by path.

    Raises:
        JobInvalid: the settings do not fit together.
    """
    search = experiment.search
    assert search is not None
    variants = {name_of(number): dict(settings)}
    alone = experiment.model_copy(update={"search": None, "variants": variants, "seeds": search.seeds})
    folder = PurePosixPath("trials", f"{number:04d}")
    return [dataclasses.replace(run, folder=folder / f"seed-{run.seed}") for run in plan(alone)]


def check(experiment: Experiment) -> None:
    """Try the job itself, and with each end and each choice of the search's space.

    Raises:
        JobInvalid: with every mistake.
    """
    assert experiment.search is not None
    try:
        plan(experiment.comparing(DEFAULT, {}))
    except JobInvalid as error:
        of_job = {item.path.partition(": ")[2]: item for item in error.errors}
        job_mistakes = [FieldError(f"job: {path}", item.value, item.message) for path, item in of_job.items()]
    else:
        of_job, job_mistakes = {}, []
    mistakes = {str(item): item for item in job_mistakes}
    for path, value in _corners(experiment.search):
        try:
            plan(experiment.comparing(DEFAULT, {path: value}))
        except JobInvalid as error:
            for item in error.errors:
                field = item.path.partition(": ")[2]
                if field not in of_job:
                    where = f"search.space.{path}" if field == path else f"search.space.{path}: {field}"
                    mistake = FieldError(where, item.value, item.message)
                    mistakes[str(mistake)] = mistake
    if mistakes:
        raise JobInvalid(list(mistakes.values()))


def own_settings(experiment: Experiment) -> dict[str, Any] | None:
    """The job's own values of the fields of the space; None where one of them lies outside of the space."""
    assert experiment.search is not None
    job = plan(experiment.comparing(DEFAULT, {}))[0].job.to_dict()
    settings = {}
    for path, parameter in experiment.search.space.items():
        value = value_at(job, tuple(path.split(".")))
        if value is ABSENT:
            value = None
        if not _holds(parameter, value):
            return None
        settings[path] = value
    return settings


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by path as they stand in a job file."""
    fields: dict[str, Any] = {}
    for path, value in settings.items():
        set_field(fields, path.split("."), value)
    return fields


def _corners(search: Search) -> Iterator[tuple[str, Any]]:
    for path, parameter in search.space.items():
        for value in parameter.choices or (parameter.low or 0, parameter.high or 0):
            yield path, value


def _holds(parameter: Parameter, value: Any) -> bool:
    if parameter.choices is not None:
        return value in parameter.choices
    low, high, step = parameter.low, parameter.high, parameter.step
    if isinstance(value, bool) or not isinstance(value, int | float) or low is None or high is None:
        return False
    steps = (value - low) / step if step else 0.0
    return low <= value <= high and abs(steps - round(steps)) < 1e-9
