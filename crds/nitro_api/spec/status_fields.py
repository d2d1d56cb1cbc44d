"""The base of the status models, and the types of their fields.

A learner runs code of the job's author, so nothing in a status is certain but the schema: every number is
bounded, every text and list limited, every time one that can be read.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from nitro_api.base import Model

TIME_PATTERN = (
    "^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$"
)
"""RFC 3339 as Python reads it: Kubernetes' own format takes +99:99 as a time zone."""


def _time(text: str) -> str:
    if not re.fullmatch(TIME_PATTERN, text):
        raise ValueError("must be a time such as 2026-11-20T12:00:00Z")
    datetime.fromisoformat(text)  # there is no 30 February
    return text


Time = Annotated[
    str,
    AfterValidator(_time),
    Field(max_length=64, json_schema_extra={"format": "date-time", "pattern": TIME_PATTERN}),
]
Text = Annotated[str, Field(max_length=32_768)]
Word = Annotated[str, Field(max_length=1024)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""Any whole number that every JSON reader keeps exactly."""
Rounds = Annotated[int, Field(ge=0, le=10**9)]
Pods = Annotated[int, Field(ge=0, le=10**6)]
Score = Annotated[float, Field(ge=0, le=1)]
LARGEST = 1e100
"""Of returns and ratios: their squares and sums are finite too."""


def _number(value: float) -> float:
    if not abs(value) <= LARGEST:
        raise ValueError(_WITHIN["message"])
    return value


# The API server turns the maximum of a whole number into 64 bits, and would refuse every one below 1e100.
_WITHIN = {
    "rule": f"self >= -{LARGEST:g} && self <= {LARGEST:g}".replace("e+", "e"),
    "message": f"must be a number from -{LARGEST:g} to {LARGEST:g}; correct it",
}
Number = Annotated[
    float, AfterValidator(_number), Field(json_schema_extra={"x-kubernetes-validations": [_WITHIN]})
]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PodSeconds = Annotated[float, Field(ge=0, le=1e15)]
Dollars = Annotated[float, Field(ge=0, le=1e12)]


class StatusModel(Model):
    """Base of the status.

    A learner's account may write it, and what was stored before an upgrade had wider limits. So what is wrong
    is left out when it is read: a field, or an entry of a list. Only what is no mapping, or lacks a required
    field, is refused. What a newer writer added is ignored.
    """

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out_what_is_wrong(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            if not isinstance(value, dict):
                raise
            places = {item["loc"][:2] for item in error.errors(include_url=False)}
            return handler(_without(value, places))

    def left_out(self, raw: Mapping[str, Any]) -> list[str]:
        """Fields of what this was read from that are left out whole."""
        names = {field.alias or name: name for name, field in type(self).model_fields.items()}
        return [alias for alias, name in names.items() if alias in raw and name not in self.model_fields_set]


def _without(value: dict[str, Any], places: set[tuple[int | str, ...]]) -> dict[str, Any]:
    """A copy without the fields, and the entries of lists, at these places."""
    rest = copy.copy(value)
    wrong = {name for name, *below in places if not (below and isinstance(value.get(str(name)), list))}
    for name in {str(name) for name, *_ in places}:
        if name in wrong:
            rest.pop(name, None)
        elif name in rest:
            entries = enumerate(rest[name])
            rest[name] = [entry for index, entry in entries if (name, index) not in places]
    return rest
