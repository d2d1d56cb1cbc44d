"""The section `search` of an experiment's file: which fields are tried, within which limits, how often."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import Field, WrapValidator

from nitro_api import FieldError
from nitro_api.base import Model
from nitro_api.errors import ABSENT, installing
from nitro_api.loading.yamlfile import as_stored
from nitro_api.schema.openapi import schema_at


def _as_written(value: Any, check: Callable[[Any], float]) -> float:
    """The number as it is, an integer or a float, once it was checked."""
    check(value)
    number: float = value
    return number


class Parameter(Model):
    """The values that are tried for one field: a range from `low` to `high`, or a list of `choices`."""

    low: Annotated[float, WrapValidator(_as_written)] | None = None
    """Lowest value."""

    high: Annotated[float, WrapValidator(_as_written)] | None = None
    """Highest value."""

    log: bool = False
    """Whether values are drawn evenly on a logarithmic scale. Default: false."""

    step: Annotated[float, Field(gt=0), WrapValidator(_as_written)] | None = None
    """Distance between neighbouring values. Default: 1 for a field that takes integers, else any value."""

    choices: Annotated[list[Any], Field(min_length=2, max_length=100)] | None = None
    """The values, in place of a range. Each is what the field takes, also a list or a mapping."""


class Search(Model):
    """Trials of the job with other settings. Each is a run per seed with the experiment's budget."""

    trials: Annotated[int, Field(ge=1, le=10_000)]
    """Trials in all. More of them extend a search that has ended."""

    seeds: Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=100)] = (
        Field(default_factory=lambda: [0])
    )
    """Seeds of every trial's runs. Its score is their mean, so several of them leave less to luck. The first
    is also the seed of what is proposed. Default: 0 alone."""

    prune: bool = True
    """Whether a trial ends early that is worse than the median of the others at equal spending. Default:
    true."""

    space: Annotated[dict[str, Parameter], Field(min_length=1, max_length=50)]
    """What is tried: fields of the job, by path as in --set."""


def is_integer(path: str, parameter: Parameter) -> bool:
    """Whether a range has integers only: the field takes no others, or takes anything, as RLlib's settings
    do, and the range is written in integers. In an environment's keyword arguments 1.0 is no integer."""
    kind = (schema_at(tuple(path.split("."))) or {}).get("type")
    if kind is not None:
        return bool(kind == "integer")
    numbers = (parameter.low, parameter.high, parameter.step)
    return all(number is None or isinstance(number, int) for number in numbers)


def mistakes(search: Search, seeds: list[int]) -> Iterator[FieldError]:
    """The mistakes in a search that concern several fields together, or the program."""
    if importlib.util.find_spec("optuna") is None:
        message = f"needs the package optuna: {installing('train', 'search')}"
        yield FieldError("search", ABSENT, message)
    if len({*search.seeds}) < len(search.seeds):
        yield FieldError("search.seeds", search.seeds, "holds a seed twice; remove one")
    if shared := sorted({*search.seeds} & {*seeds}):
        message = (
            f"holds {', '.join(map(str, shared))}, also in search.seeds, by which the best trial is chosen; "
            "the comparison needs fresh seeds: remove what is in both from one of them"
        )
        yield FieldError("seeds", seeds, message)
    for path, parameter in search.space.items():
        where = f"search.space.{path}"
        if not path.startswith("spec."):
            yield FieldError(where, ABSENT, "must be a field of the job below spec; correct the path")
        yield from _of_parameter(where, path, parameter)


def _of_parameter(where: str, path: str, parameter: Parameter) -> Iterator[FieldError]:
    low, high, step = parameter.low, parameter.high, parameter.step
    given = parameter.to_dict()
    if parameter.choices is not None:
        if low is not None or high is not None or step is not None or parameter.log:
            yield FieldError(where, given, "has choices and a range; remove one of them")
        different = {json.dumps(as_stored(value), sort_keys=True) for value in parameter.choices}  # 1 is 1.0
        if len(different) < len(parameter.choices):
            yield FieldError(f"{where}.choices", parameter.choices, "holds a value twice; remove one")
        return
    if low is None or high is None:
        yield FieldError(where, given, "must have both low and high, or choices; add what is missing")
        return
    if low >= high:
        yield FieldError(f"{where}.low", low, f"must be below high, which is {high:g}; correct one of them")
    if parameter.log and low <= 0:
        yield FieldError(f"{where}.low", low, "must be above 0 where log is true; raise it or remove log")
    if parameter.log and step is not None:
        yield FieldError(f"{where}.step", step, "cannot be combined with log; remove one of them")
    if step is not None and low < high and step > high - low:
        yield FieldError(f"{where}.step", step, f"is larger than the range of {high - low:g}; lower it")
    if is_integer(path, parameter):
        for name, value in (("low", low), ("high", high), ("step", step)):
            if value is not None and not float(value).is_integer():
                message = "must be an integer, because the field takes integers only; round it"
                yield FieldError(f"{where}.{name}", value, message)
