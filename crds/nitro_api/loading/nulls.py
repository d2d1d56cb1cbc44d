"""Nulls in a job file: which of them mean that a field is absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from nitro_api.schema.wording import Location
from nitro_api.spec.job import NitroTrainingJob

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
    found: list[Any] = [annotation for name, annotation in _fields(kind) if name == part]
    if get_origin(kind) is list:
        found = [get_args(kind)[0]]
    elif get_origin(kind) is dict:
        found = [get_args(kind)[1]]
    for one in found:
        yield from _options(one)


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
