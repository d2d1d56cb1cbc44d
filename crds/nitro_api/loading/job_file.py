"""From a job file to a NitroTrainingJob, or to every mistake in it at once."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nitro_api.base import WITHOUT_RULES
from nitro_api.errors import ABSENT, FieldError, JobInvalid
from nitro_api.loading import yamlfile
from nitro_api.resolution.resolve import keep_begun, resolve
from nitro_api.rules import agents_rules, cache_rules, network_rules, payload_rules
from nitro_api.schema.openapi import schema_at
from nitro_api.schema.wording import (
    Location,
    broken_rules,
    located_errors,
    meant_place,
    related,
    value_at,
)
from nitro_api.spec.free_json import FLOAT, point_lost
from nitro_api.spec.job import GivenSpec, NitroTrainingJob, ResolvedJob
from nitro_api.spec.learner_status import NO_CHECK, TrainingStatus

_RLLIB_SETTINGS = ("spec", "algorithm", "rllib")


def without_nulls(data: Any, location: Location = ()) -> Any:
    """A copy in which a null is an absent field, as with `kubectl apply`. A null stays in three places: as an
    entry of a list, in RLlib's settings, some of which it switches off, and in an unknown field, which is a
    mistake."""
    if location == _RLLIB_SETTINGS:
        return data
    if isinstance(data, dict):
        left_out = {key for key, value in data.items() if value is None}
        if left_out:
            left_out &= data.keys() if (names := names_at(location)) is None else names
        return {
            key: without_nulls(value, (*location, key)) for key, value in data.items() if key not in left_out
        }
    if isinstance(data, list):
        return [without_nulls(item, (*location, index)) for index, item in enumerate(data)]
    return data


def names_at(location: Location) -> set[str] | None:
    """Names of the fields of the object at a place of the job; None if it may have any.

    They are read from the models, because a JSON schema of the job takes most of a second to make.
    """
    kinds: list[Any] = [NitroTrainingJob]
    for part in location:
        kinds = [below for kind in kinds for below in _below(kind, part)]
    names = {name for kind in kinds for name, _ in _fields(kind)}
    return names or None


def _below(kind: Any, part: str | int) -> Iterator[Any]:
    """The types that the value at `part` of such a value may have."""
    kinds: list[Any] = [annotation for name, annotation in _fields(kind) if name == part]
    if get_origin(kind) is list:
        kinds = [get_args(kind)[0]]
    elif get_origin(kind) is dict:
        kinds = [get_args(kind)[1]]
    for child in kinds:
        yield from _options(child)


def _options(kind: Any) -> Iterator[Any]:
    """The members of a union, or the type itself, without annotations."""
    if get_origin(kind) is Annotated:
        yield from _options(get_args(kind)[0])
    elif get_origin(kind) in (list, dict) or isinstance(kind, type):
        yield kind
    else:
        for member in get_args(kind):
            yield from _options(member)


def _fields(kind: Any) -> Iterator[tuple[str, Any]]:
    """Names as in YAML, and types, of a model's fields; none if it is no model."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield field.alias or name, field.annotation


_FITTED = ("environment", "algorithm", "network", "scaling", "backend", "cache")
"""Fields of spec that decide whether networks fit the environment, and whether messages fit the transport."""


def load_job(
    source: Path | str | dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    look_up: Callable[[GivenSpec], Sequence[FieldError]] = lambda _: (),
) -> NitroTrainingJob:
    """The job in `source`: a path, YAML text (a string with a line break), or an object such as the API
    server returns.

    `overrides` are applied first: `spec.seed=3` sets a field to a YAML value, `spec.seed=null` removes it,
    and below spec.algorithm.rllib, where null is a value, sets it to that.
    `look_up` may find mistakes in spec.environment that these models cannot know. It is called only if the
    environment has no other mistake.
    Raises JobInvalid with every mistake: unknown fields, wrong types, limits, rules across fields, and what
    `look_up` finds. Two kinds are found only if the fields that they depend on are right: networks that do
    not fit the environment, and messages that cannot fit their transport.
    """
    data, mistakes = _read(source, overrides)
    about, wrong = _check(data)
    mistakes += _reported(wrong)
    places = [place for place, _ in wrong]
    if about is not None and not _touched(places, ("spec", "environment")):
        mistakes += look_up(about.spec)
    job = _without_mistakes(data, places)
    if job is not None and not any(_touched(places, ("spec", name)) for name in _FITTED):
        mistakes += agents_rules.mistakes(job)
        mistakes += network_rules.mistakes(job) or payload_rules.mistakes(job) or cache_rules.mistakes(job)
    if mistakes or job is None:
        raise JobInvalid(mistakes)
    return job


def _read(
    source: Path | str | dict[str, Any], overrides: Sequence[str]
) -> tuple[dict[str, Any], list[FieldError]]:
    """What `load_job` checks: the job without its nulls, with overrides, and the mistakes in its text."""
    mistakes: list[FieldError] = []
    if isinstance(source, dict):
        data: Any = yamlfile.as_stored(source)
    elif isinstance(source, str) and "\n" in source:
        data, mistakes = yamlfile.parse(source)
    else:
        data, mistakes = yamlfile.read(Path(source))
    if not isinstance(data, dict):
        message = "must be a mapping with apiVersion, kind, metadata and spec; see examples/"
        raise JobInvalid([*mistakes, FieldError("", data, message)])
    for override in overrides:
        mistakes += apply_override(data, override)
    return without_nulls(yamlfile.as_stored(data)), mistakes


def lost_points(source: Path | str | dict[str, Any], overrides: Sequence[str] = ()) -> list[str]:
    """Warnings about floats of a valid job that are integers once it was applied to a cluster."""
    data = _read(source, overrides)[0]
    return [text for field in yamlfile.UNTYPED for text in _lost_in(field, value_at(data, field))]


def _lost_in(field: tuple[str, ...], given: Any) -> list[str]:
    lost = list(point_lost(given)) if isinstance(given, dict) else []
    if not lost:
        return []
    path, value = lost[0]
    others = f", and {len(lost) - 1} more values alike" if len(lost) > 1 else ""
    return [
        f"{'.'.join(field)}{path}: on a cluster {value!r} is {int(value)}{others}, because kubectl "
        f"and the API server drop the point; write {{{FLOAT}: {int(value)}}} where the constructor needs a "
        "float"
    ]


def resolve_stored(stored: Mapping[str, Any]) -> ResolvedJob:
    """The resolved job of an object as the API server has it, without its status and most metadata. A run
    that has begun keeps what `keep_begun` says.

    Raises:
        JobInvalid: with every mistake.
        pydantic.ValidationError: as `resolve`.
    """
    kept = ("name", "namespace", "uid")
    metadata = {name: stored["metadata"][name] for name in kept if name in stored["metadata"]}
    annotations = stored["metadata"].get("annotations") or {}
    if NO_CHECK in annotations:  # the only one that the learner reads
        metadata["annotations"] = {NO_CHECK: annotations[NO_CHECK]}
    plain = {name: stored[name] for name in ("apiVersion", "kind", "spec")}
    job = load_job({**plain, "metadata": metadata})
    # The status is the learner's: it may be anything.
    status = reported if isinstance(reported := stored.get("status"), Mapping) else {}
    training = status.get("training")
    if isinstance(training, Mapping) and "round" in training:
        known = TrainingStatus.model_validate(dict(training))
        keep_begun(job.spec, known.model_dump(by_alias=True))
    return resolve(job)


def _check(data: dict[str, Any]) -> tuple[NitroTrainingJob | None, list[tuple[Location, FieldError]]]:
    """The job without its wrong fields, or None if there is no such job; and every mistake with its place.

    Pydantic checks an object's rules only if all of its fields are right. So wrong fields are removed, and
    required ones are replaced by a right value. Then every rule is checked that does not read these fields.
    """
    mistakes: list[tuple[Location, FieldError]] = []
    while True:
        places = [place for place, _ in mistakes]
        rest = _without(data, places)
        try:
            job = NitroTrainingJob.model_validate(rest, by_alias=True, by_name=False, context=WITHOUT_RULES)
        except ValidationError as error:
            fresh = [mistake for mistake in located_errors(error, data) if not _touched(places, mistake[0])]
            if not fresh:
                return None, mistakes
            mistakes += fresh
        else:
            meant = [place for place in map(meant_place, places) if place and value_at(data, place) is ABSENT]
            return job, [*mistakes, *broken_rules(job, data, [*places, *meant])]


def _reported(mistakes: Sequence[tuple[Location, FieldError]]) -> list[FieldError]:
    """The mistakes without fields that are missing only because their names are misspelt, which is the
    mistake to mend."""
    meant = {meant_place(place) for place, _ in mistakes}
    return [mistake for place, mistake in mistakes if not (mistake.value is ABSENT and place in meant)]


def _without_mistakes(data: dict[str, Any], places: Sequence[Location]) -> NitroTrainingJob | None:
    """The job without its wrong fields; None if it breaks a rule."""
    try:
        return NitroTrainingJob.model_validate(_without(data, places), by_alias=True, by_name=False)
    except ValidationError:
        return None


def _touched(places: Sequence[Location], place: Location) -> bool:
    """Whether one of the places equals this one, lies within it or contains it."""
    return any(related(other, place) for other in places)


def _without(data: dict[str, Any], places: Sequence[Location]) -> dict[str, Any]:
    if not places:
        return data
    rest = copy.deepcopy(data)
    for place in places:
        # A wrong entry removes the whole list: without the entry, the later ones would move up.
        cut = next((depth for depth, part in enumerate(place) if isinstance(part, int)), len(place))
        holder = value_at(rest, place[: cut - 1])
        if not isinstance(holder, dict) or not cut:
            continue
        holder.pop(place[cut - 1], None)
        if place[cut - 1] in _needed(place[: cut - 1]):
            holder[place[cut - 1]] = _right_value(place[:cut])
    return rest


def _needed(place: Location) -> list[str]:
    """Fields that the object at this place must have."""
    required: list[str] = (schema_at(place) or {}).get("required", [])
    return [*required, "id"] if place == ("spec", "environment") else required


def _right_value(place: Location) -> Any:
    """A value that the schema of a required field allows."""
    schema = schema_at(place) or {}
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: _right_value((*place, name)) for name in _needed(place)}
    if schema.get("type") == "array":
        return [_right_value((*place, 0))] * schema.get("minItems", 0)
    if schema.get("type") in ("integer", "number"):
        return schema.get("minimum", 0)
    return "a" * schema.get("minLength", 1)


def apply_override(data: dict[str, Any], override: str) -> list[FieldError]:
    """Set one field in `data` by `path=value`. Returns the mistakes in it."""
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
    """Set the field of `data` at the path `names`, and make missing objects on the way. Returns the mistake
    if that is not possible."""
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
