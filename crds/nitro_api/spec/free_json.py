"""Fields that take any JSON, such as an environment's keyword arguments, and how deep and large it may be.

The API server itself stores JSON of thousands of levels, which no reader in Python takes. A schema cannot
refer to itself in a CRD, so the allowed levels are written out, each with the next one inside.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

MAX_LEVELS = 8
"""Mappings and lists within each other, the field itself the first. The schema doubles with each level."""
MAX_KEYS = 256
"""Most names in a mapping inside the field."""
MAX_ENTRIES = 4096
"""Most entries of a list."""
MAX_CHARACTERS = 32_768
"""Most characters of a text."""

MAX_BYTES = 124 * 2**10
"""Largest size of the whole field as JSON. The API server has no such bound. But an actor gets its
environment in an environment variable, and Linux accepts at most 128 KiB there."""

MISTAKES = "free_json"
"""Type of the validation error that carries every mistake inside such a field."""

FLOAT = "$float"
"""`{$float: 1}` is 1.0 in environment.kwargs and in settings: the API server stores 1.0 as 1."""

PRESERVE = "x-kubernetes-preserve-unknown-fields"
"""Where the schema has it, values of any type are kept."""
_Place = tuple[int | str, ...]


def _level(below: int, **null: bool) -> dict[str, Any]:
    """Schema of a value with at most so many further levels.

    The two deepest levels, three quarters of the schema, do not say how long texts, lists and mappings may
    be: that would make the CRD larger by 12 KB. The operator checks it.
    """
    schema: dict[str, Any] = {PRESERVE: True, **null}
    if not below:
        return {**schema, "maxItems": 0, "maxProperties": 0}
    if below > 1:
        schema |= {"maxLength": MAX_CHARACTERS, "maxItems": MAX_ENTRIES, "maxProperties": MAX_KEYS}
    # A list keeps its nulls in any case; to say it of 255 lists makes the CRD larger by 4 KB.
    return schema | {"items": _level(below - 1), "additionalProperties": _level(below - 1, nullable=True)}


def _checked(value: dict[str, Any], levels: int) -> dict[str, Any]:
    mistakes = list(_mistakes(value, levels))
    if not mistakes and (size := len(json.dumps(value))) > MAX_BYTES:
        text = (
            f"must be at most {MAX_BYTES // 2**10} KiB as JSON, and is {size / 2**10:.0f}; put data into a "
            "file of the image and name it here"
        )
        mistakes = [((), text)]
    if mistakes:
        raise PydanticCustomError(MISTAKES, "{text}", {"text": mistakes[0][1], "found": mistakes})
    return value


def _mistakes(field: dict[str, Any], levels: int) -> Iterator[tuple[_Place, str]]:
    """Errors inside a field, with their places in it."""
    pending: deque[tuple[_Place, Any]] = deque(((name,), value) for name, value in field.items())
    while pending:
        place, value = pending.popleft()
        if isinstance(value, float) and not math.isfinite(value):
            yield place, "must be a finite number, because JSON has no other; change it"
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            yield place, f"must be text of at most {MAX_CHARACTERS} characters; shorten it"
        if not isinstance(value, dict | list) or not value:
            continue
        if len(place) >= levels:
            yield (
                place,
                (
                    f"must be a single value, because at most {levels} levels of mappings and lists are "
                    "allowed here, the field itself the first; flatten it"
                ),
            )
        elif isinstance(value, list):
            if len(value) > MAX_ENTRIES:
                yield place, f"must be a list of at most {MAX_ENTRIES} entries; shorten it"
            pending += [((*place, index), item) for index, item in enumerate(value)]
        else:
            if len(value) > MAX_KEYS:
                yield place, f"must be a mapping of at most {MAX_KEYS} keys; shorten it"
            pending += [((*place, str(key)), item) for key, item in value.items()]


def with_floats(field: dict[str, Any]) -> dict[str, Any]:
    """The field with a float in place of each `{$float: NUMBER}`."""
    wrong: list[tuple[_Place, str]] = []

    def read(value: Any, place: _Place) -> Any:
        if isinstance(value, list):
            return [read(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if set(value) != {FLOAT} or not place:
            return {key: read(item, (*place, str(key))) for key, item in value.items()}
        number = value[FLOAT]
        if isinstance(number, bool) or not isinstance(number, int | float):
            wrong.append((place, f"must have a number after {FLOAT}, as in {{{FLOAT}: 1}}; correct it"))
            return value
        return float(number)

    settings: dict[str, Any] = read(field, ())
    if wrong:
        raise PydanticCustomError(MISTAKES, "{text}", {"text": wrong[0][1], "found": wrong})
    return settings


def marked(value: Any) -> Any:
    """The opposite of `with_floats`, for what goes to the API server."""
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [marked(item) for item in value]
    return {FLOAT: value} if isinstance(value, float) and value.is_integer() else value


def point_lost(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """The floats that JSON writes as integers, and that are not marked by `$float`, with their paths."""
    if isinstance(value, dict) and set(value) != {FLOAT}:
        for key, item in value.items():
            yield from point_lost(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from point_lost(item, f"{path}[{index}]")
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        yield path, value


class FreeJson:
    """Annotation of a `dict[str, Any]` that takes any JSON within these limits. How many names there may be
    is the field's own limit.

    Args:
        levels: of mappings and lists, the field itself the first.
    """

    def __init__(self, levels: int = MAX_LEVELS) -> None:
        self._levels = levels

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(lambda value: _checked(value, self._levels), handler(source))

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core_schema), "additionalProperties": _level(self._levels - 1, nullable=True)}
