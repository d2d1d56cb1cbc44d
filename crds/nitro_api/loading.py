"""From a job file to a NitroTrainingJob, or to every mistake in it at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nitro_api import network_rules, payload, yamlfile
from nitro_api.errors import FieldError, JobInvalid
from nitro_api.job import NitroTrainingJob
from nitro_api.resolution import resolve
from nitro_api.wording import Location, located_errors, value_at

_RLLIB_SETTINGS = ("spec", "algorithm", "rllib")


def load_job(source: Path | str | dict[str, Any], overrides: Sequence[str] = ()) -> NitroTrainingJob:
    """The job in `source`: a path, YAML text (a string with a line break), or an object such as the API
    server returns.

    `overrides` are applied first: `spec.seed=3` sets a field to a YAML value, `spec.seed=null` removes it,
    and below spec.algorithm.rllib, where null is a value, sets it to that.
    Raises JobInvalid with every mistake: unknown fields, wrong types, limits, rules across fields, and then
    messages that cannot fit where they have to.
    """
    mistakes: list[FieldError] = []
    if isinstance(source, dict):
        data: Any = copy.deepcopy(source)
    elif isinstance(source, str) and "\n" in source:
        data, mistakes = yamlfile.parse(source)
    else:
        data, mistakes = yamlfile.read(Path(source))
    if not isinstance(data, dict):
        message = "must be a mapping with apiVersion, kind, metadata and spec; see examples/"
        raise JobInvalid([*mistakes, FieldError("", data, message)])
    for override in overrides:
        mistakes += apply_override(data, override)
    job, found = _check(_without_nulls(data))
    if job is not None and not mistakes:
        found = network_rules.mistakes(job) or payload.mistakes(job)
    if found or mistakes or job is None:
        raise JobInvalid([*mistakes, *found])
    return job


def resolve_stored(stored: Mapping[str, Any]) -> NitroTrainingJob:
    """The resolved job of an object as the API server has it, whose status and other metadata are left out.

    Raises:
        JobInvalid: with every mistake.
        pydantic.ValidationError: as `resolve`.
    """
    metadata = {name: stored["metadata"][name] for name in ("name", "namespace", "uid")}
    plain = {name: stored[name] for name in ("apiVersion", "kind", "spec")}
    return resolve(load_job({**plain, "metadata": metadata}))


def _check(data: dict[str, Any]) -> tuple[NitroTrainingJob | None, list[FieldError]]:
    """The job in `data`, or every mistake in it.

    Rules across fields are looked at only once all fields of an object are right. So wrong fields are taken
    out and the rest is checked again, until nothing more is found.
    """
    rest = data
    places: list[Location] = []
    mistakes: list[FieldError] = []
    while True:
        try:
            job = NitroTrainingJob.model_validate(rest, by_alias=True, by_name=False)
        except ValidationError as error:
            found = located_errors(error, data)
        else:
            return (None, mistakes) if mistakes else (job, [])
        # That something is missing after it was taken out is no mistake.
        fresh = [
            (place, mistake) for place, mistake in found if not any(_related(place, one) for one in places)
        ]
        if not fresh:
            return None, mistakes
        mistakes += [mistake for _, mistake in fresh]
        places += [place for place, _ in fresh]
        rest = _without(data, places)


def _without_nulls(data: Any, location: Location = ()) -> Any:
    """A copy in which a null is an absent field, as `kubectl apply` has it. Entries of lists stay, and so do
    RLlib's settings, some of which null switches off."""
    if location == _RLLIB_SETTINGS:
        return data
    if isinstance(data, dict):
        return {
            key: _without_nulls(value, (*location, key)) for key, value in data.items() if value is not None
        }
    if isinstance(data, list):
        return [_without_nulls(item, (*location, index)) for index, item in enumerate(data)]
    return data


def _related(one: Location, other: Location) -> bool:
    """Whether one place is the other or lies within it."""
    return one[: len(other)] == other or other[: len(one)] == one


def _without(data: dict[str, Any], places: list[Location]) -> dict[str, Any]:
    rest = copy.deepcopy(data)
    for place in places:
        # The whole list goes with a wrong entry: without it the others would move up.
        cut = next((depth for depth, part in enumerate(place) if isinstance(part, int)), len(place))
        holder = value_at(rest, place[: cut - 1])
        if isinstance(holder, dict):
            holder.pop(place[cut - 1], None)
    return rest


def apply_override(data: dict[str, Any], override: str) -> list[FieldError]:
    """Set one field in `data` by `path=value`; say what is wrong with it otherwise."""
    path, equals, text = override.partition("=")
    names = path.strip().split(".")
    if not equals or not all(names):
        return [FieldError("", override, "must be path=value, such as spec.seed=3; correct the override")]
    try:
        value = yamlfile.parse_value(text)
    except JobInvalid as error:
        return [FieldError(path, text, f"must be a YAML value ({error}); quote it")]
    return set_field(data, names, value)


def set_field(data: dict[str, Any], names: Sequence[str], value: Any) -> list[FieldError]:
    """Set the field below `data` that `names` lead to, making the objects on the way; say why that cannot be
    otherwise."""
    target = data
    for depth, name in enumerate(names[:-1]):
        if target.get(name) is None:
            target[name] = {}
        target = target[name]
        if not isinstance(target, dict):
            path, full = ".".join(names[: depth + 1]), ".".join(names)
            return [FieldError(path, target, f"has no fields, so {full} cannot be set there")]
    target[names[-1]] = value
    return []
