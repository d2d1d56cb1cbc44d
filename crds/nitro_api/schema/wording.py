"""Wording of mistakes: pydantic's findings as paths, with what is allowed and what to do."""

import difflib
from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from nitro_api.algorithms.registry import RECORDS, settings_of
from nitro_api.base import NAME_PATTERN, RULES_BROKEN, Model, Rule, broken_by, rules_of
from nitro_api.errors import ABSENT, FieldError
from nitro_api.schema.foreign_names import known_as, plain
from nitro_api.schema.openapi import INT_OR_STRING, Schema, fields, schema_at
from nitro_api.spec import free_json
from nitro_api.spec.placement import KEY_PATTERN, VALUE_PATTERN
from nitro_api.spec.pod_template import DATA_KEY_PATTERN, VOLUME_PATTERN
from nitro_api.spec.scaling import HOLD_PATTERN

Location = tuple[int | str, ...]
_CHARACTERS = {
    NAME_PATTERN: "lower-case letters, digits, hyphens and dots, a letter or digit at both ends",
    VOLUME_PATTERN: "lower-case letters, digits and hyphens, a letter or digit at both ends",
    DATA_KEY_PATTERN: "letters, digits, -, _ and .",
    KEY_PATTERN: "a label's key, such as team or example.com/team",
    VALUE_PATTERN: "letters, digits, -, _ and ., a letter or digit at both ends",
}
"""What texts with a pattern consist of."""

NO_SUCH_ALGORITHM = (
    "choose one: ppo is the first choice for one agent, ippo for several (docs/algorithms.md says what each "
    "is for, and why others are not there)"
)
"""What to do about an algorithm that there is not."""


def located_errors(
    error: ValidationError, data: dict[str, Any], root: Schema | None = None
) -> list[tuple[Location, FieldError]]:
    """Every mistake in `data` that `error` reports, each once, with its place. `root` is the schema of the
    file if it is not a job."""
    errors_by_message: dict[tuple[str, str], tuple[Location, FieldError]] = {}
    for item in error.errors(include_url=False):
        location, kind = _of_field(item["loc"], root), item["type"]
        if kind == RULES_BROKEN:
            mistakes = [broken(rule, location, data) for rule in item["ctx"]["rules"]]
        elif kind == free_json.MISTAKES:
            places = [((*location, *place), sentence) for place, sentence in item["ctx"]["found"]]
            mistakes = [
                (place, FieldError(dotted(place), value_at(data, place), sentence))
                for place, sentence in places
            ]
        else:
            kind = "invalid_key" if item["loc"][-1] == "[key]" else kind
            mistakes = [(location, _mistake(kind, location, data, root))]
        errors_by_message |= {
            (mistake.path, mistake.message): (place, mistake) for place, mistake in mistakes
        }
    return list(errors_by_message.values())


def broken_rules(
    model: Model, data: dict[str, Any], doubtful: Sequence[Location], location: Location = ()
) -> list[tuple[Location, FieldError]]:
    """Every rule across fields that `model` or an object in it breaks. `model` is at `location` of `data`.
    Rules that read a doubtful place are left out."""
    mistakes: list[tuple[Location, FieldError]] = []
    for name, field in type(model).model_fields.items():
        value, place = getattr(model, name), (*location, field.alias or name)
        entries = enumerate(value) if isinstance(value, list) else ()
        for at, item in [(place, value), *(((*place, index), entry) for index, entry in entries)]:
            if isinstance(item, Model):
                mistakes += broken_rules(item, data, doubtful, at)
    doubtful = [*doubtful, *(place for place, _ in mistakes)]
    rules = [
        rule
        for rule in rules_of(type(model))
        if not any(related((*location, *path), place) for path in rule.reads for place in doubtful)
    ]
    return [*mistakes, *(broken(rule, location, data) for rule in broken_by(model, rules))]


def broken(rule: Rule, location: Location, data: dict[str, Any]) -> tuple[Location, FieldError]:
    """The mistake of an object at `location` that breaks the rule, with its place."""
    place = (*location, *rule.path.split("."))
    return place, FieldError(dotted(place), value_at(data, place), rule.sentence)


def related(first: Location, second: Location) -> bool:
    """Whether one place is the other or lies within it."""
    return first[: len(second)] == second or second[: len(first)] == first


def _mistake(kind: str, location: Location, data: dict[str, Any], root: Schema | None) -> FieldError:
    path, value = dotted(location), value_at(data, location)
    schema = schema_at(location, root)
    if kind == "invalid_key":
        return FieldError(path, value, "must have text as a key; put the key in quotes")
    if kind == "extra_forbidden" or schema is None:
        return FieldError(path, value, _unknown(location, data, root))
    if kind == "missing":
        return FieldError(path, ABSENT, f"is required and {allowed(schema)}; add it")
    return FieldError(path, value, f"{allowed(schema)}; {_remedy(value, location, schema, root)}")


def allowed(schema: Schema) -> str:
    """What a field takes, beginning with "must be"."""
    if choices := schema.get("enum"):
        return f"must be {'' if len(choices) == 1 else 'one of '}{', '.join(map(str, choices))}"
    if schema.get("pattern") == HOLD_PATTERN:
        return f"must be auto or an integer{_range(schema)}"
    if INT_OR_STRING in schema:
        return "must be an integer or a text such as 500m, 1.5 or 2Gi"
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return f"must be {'an integer' if kind == 'integer' else 'a number'}{_range(schema)}"
    if kind == "boolean":
        return "must be true or false"
    if kind == "string":
        characters = _CHARACTERS.get(schema.get("pattern", ""))
        return (
            f"must be text{_length(schema, 'Length', 'character')}{f': {characters}' if characters else ''}"
        )
    if kind == "array":
        return f"must be a list{_length(schema, 'Items', 'entry')}"
    names = list(schema.get("properties", ()))
    return f"must be a mapping with fields such as {', '.join(names[:3])}" if names else "must be a mapping"


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and not schema.get("exclusiveMinimum"):
        return f" from {_number(low)} to {_number(high)}"
    bounds = []
    if low is not None:
        bounds.append(f"{'above' if schema.get('exclusiveMinimum') else 'at least'} {_number(low)}")
    if high is not None:
        bounds.append(f"at most {_number(high)}")
    return f" {' and '.join(bounds)}" if bounds else ""


def _number(value: float) -> str:
    return f"{value:.10g}"


def _length(schema: Schema, what: str, unit: str) -> str:
    low, high = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    units = "entries" if unit == "entry" else f"{unit}s"
    if high is not None:
        return f" of {f'{low} to' if low else 'at most'} {high} {units}"
    return f" of at least {low} {units if low > 1 else unit}" if low else ""


def _remedy(value: Any, location: Location, schema: Schema, root: Schema | None) -> str:
    """What to do about a value of the wrong type or size."""
    if isinstance(value, str):
        choices = [str(choice) for choice in schema.get("enum", ())]
        of_rllib = f"rllib/{value.lower()}"
        if (
            close := of_rllib
            if of_rllib in choices and value.lower() not in choices
            else nearest(value, choices)
        ):
            return f"did you mean {close}?"
        if choices and RECORDS.keys() >= set(choices):
            return NO_SUCH_ALGORITHM
        if schema.get("type") in ("integer", "number", "boolean") and not isinstance(_read(value), str):
            return "remove the quotes"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if schema.get("type") == "string" or (INT_OR_STRING in schema and "minimum" not in schema):
            return "put it in quotes"
        if value < schema.get("minimum", value) or (
            schema.get("exclusiveMinimum") and value <= schema["minimum"]
        ):
            return f"raise it{_or_default(location, root)}"
        if value > schema.get("maximum", value):
            return f"lower it{_or_default(location, root)}"
    return f"change it{_or_default(location, root)}"


def _or_default(location: Location, root: Schema | None) -> str:
    if isinstance(location[-1], int):
        return ""
    parent = schema_at(location[:-1], root) or {}
    return "" if location[-1] in parent.get("required", ()) else " or leave it out for the default"


def _read(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # ValueError: 0x_ is an integer without digits
        return text


def _unknown(location: Location, data: Any, root: Schema | None) -> str:
    """The message about an unknown field: it names the field that was probably meant."""
    parent, name = location[:-1], str(location[-1])
    names = list((schema_at(parent, root) or {}).get("properties", ()))
    here = dotted(parent) or ("the job" if root is None else "this file")
    if root is not None:
        guess, usable = nearest(name, names), names
    else:
        algorithm = _algorithm_at(parent, data)
        usable = [candidate for candidate in names if _fits(candidate, parent, algorithm)]
        guess = _foreign(name, usable, parent, algorithm) or meant(name, usable) or nearest(name, names)
    if guess:
        return f"is not a field of {here}; did you mean {guess}?"
    return f"is not a field of {here}; remove it, or use one of {', '.join(usable)}"


def _algorithm_at(place: Location, data: Any) -> str:
    """The algorithm of the settings at that place of a job, or else the job's."""
    entry = place[:4] if place[:3] == ("spec", "algorithm", "policies") else ("spec", "algorithm")
    name = value_at(data, (*entry, "name"))
    return "ppo" if name is ABSENT else str(name)


def _fits(name: str, parent: Location, algorithm: str) -> bool:
    """Whether jobs with that algorithm have the field `name` of that place."""
    record = RECORDS.get(algorithm)
    return record is None or parent[-1:] != ("hyperparameters",) or name in settings_of(record)


def _foreign(name: str, beside: list[str], parent: Location, algorithm: str) -> str | None:
    """The field that another library calls `name`. One of those `beside` it that has this name is nearer."""
    meaning = known_as(name, algorithm)
    if meaning is None or plain(name) in map(plain, beside):
        return None
    place, _, last = f"spec.{meaning.field}".rpartition(".")
    near = last in beside and parent[-1:] == (place.rpartition(".")[2],)
    field = last if near else f"spec.{meaning.field}"
    return f"{field}, {meaning.remark}" if meaning.remark else field


def meant_place(place: Location) -> Location | None:
    """The place of the field that was probably meant by an unknown one, among those beside it. None where
    there is none, or the field is known."""
    if not place or schema_at(place) is not None:
        return None
    parent = place[:-1]
    guess = nearest(str(place[-1]), list((schema_at(parent) or {}).get("properties", ())))
    return None if guess is None else (*parent, guess)


def meant(name: str, beside: list[str]) -> str | None:
    """The field of a job that was probably meant by an unknown name: the nearest name `beside` it, otherwise
    the path of the field that has this name in spec. None where there is none.

    A name that stands in several sections, such as `name`, says nothing about which of them was meant.
    """
    paths = ending_in(name, entries=True)
    sections = {path.split(".")[-2].removesuffix("[]") for path in paths}
    return nearest(name, beside) or (ending_in(name)[0] if len(sections) == 1 else None)


def ending_in(path: str, section: str = "spec", *, entries: bool = False) -> list[str]:
    """The fields of a section whose paths end with that one: the field of the section itself, where it has
    one. A list's entries may have the same field: they count with `entries`, or if there are no others."""
    paths = [name for name, _ in fields() if name.startswith(f"{section}.") and name.endswith(f".{path}")]
    if f"{section}.{path}" in paths:
        return [f"{section}.{path}"]
    return paths if entries else [name for name in paths if "[]" not in name] or paths


def nearest(name: str, candidates: list[str]) -> str | None:
    """The candidate that `name` was probably meant to be, None when none is near."""
    lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(plain(name), lower, n=1, cutoff=0.7) or difflib.get_close_matches(
        name.lower(), lower, n=1, cutoff=0.7
    )
    return lower[close[0]] if close else None


def _of_field(location: Location, root: Schema | None) -> Location:
    """The location without pydantic's additions: the alternative of a union that it tried, and the mark of a
    key."""
    for length in range(1, len(location)):
        if location[length] == "[key]" or INT_OR_STRING in (schema_at(location[:length], root) or {}):
            return location[:length]
    return location


def dotted(location: Location) -> str:
    """A location as Kubernetes writes it: spec.scaling.schedule[2]."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def value_at(data: Any, location: Location) -> Any:
    """The value at that place; ABSENT if there is none."""
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return data
