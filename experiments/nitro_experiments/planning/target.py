"""The target of an experiment: the return whose price is reported, in all environments or in each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from nitro_api import FieldError
from nitro_api.loading.yamlfile import whole_if_integral
from nitro_api.schema.wording import nearest
from nitro_api.spec.free_json import MISTAKES


def _checked(value: Any) -> Any:
    """Refuse what is no target, with the place of each mistake: pydantic would report each mistake once for
    numbers and once for mappings."""
    errors: list[tuple[tuple[Any, ...], str]]
    if isinstance(value, dict):
        errors = [
            ((name,), "must be a number, by the id of an environment")
            for name, number in value.items()
            if not (isinstance(name, str) and _is_number(number))
        ]
    else:
        message = "must be a number, or a mapping from environments to numbers"
        errors = [] if _is_number(value) else [((), message)]
    if errors:
        raise PydanticCustomError(MISTAKES, "{text}", {"text": errors[0][1], "found": errors})
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Target = Annotated[float | dict[str, float], BeforeValidator(_checked)]
"""One number for all environments, or a number by environment."""


def mistakes(target: Target | None, environments: Sequence[str]) -> Iterator[FieldError]:
    """Targets of environments that the experiment does not have."""
    known = f"there are {', '.join(environments)}" if environments else "add them, or give one number"
    for name, number in target.items() if isinstance(target, dict) else ():
        if name not in environments:
            close = nearest(name, list(environments))
            remedy = f"did you mean {close}?" if close else known
            yield FieldError(
                f"target.{name}", whole_if_integral(number), f"is not among environments; {remedy}"
            )
