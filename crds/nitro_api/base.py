"""The base of all models of the job: names of fields, strictness, and rules across fields."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import PydanticCustomError

from nitro_api.cel import truths

NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME_PATTERN)]
"""Name of a Kubernetes object."""

Arn = Annotated[str, Field(min_length=1, max_length=256)]
"""Amazon Resource Name."""

RULES_BROKEN = "rules_broken"
"""Type of the validation error that carries every broken rule of one object."""

WITHOUT_RULES = {"rules": False}
"""Validation context in which only fields are checked, not the rules across them."""


class _Dumper(yaml.SafeDumper):
    """Quotes texts such as N, which YAML 1.1 reads as false and PyYAML would write without quotes."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


class Model(BaseModel):
    """Base of every object in the job: camelCase outside, snake_case inside, nothing unknown, nothing
    coerced."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    @model_validator(mode="after")
    def _obey_rules(self, info: ValidationInfo) -> Self:
        if info.context == WITHOUT_RULES:
            return self
        if broken := broken_by(self, rules_of(type(self))):
            raise PydanticCustomError(
                RULES_BROKEN,
                "{sentences}",
                {"sentences": " | ".join(rule.sentence for rule in broken), "rules": broken},
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """This object as it is written in YAML: camelCase, without what is not set."""
        written: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value is not None:
                written[field.alias or name] = _plain(value)
        return written

    def to_yaml(self, *, escaped: bool = False) -> str:
        """The same as YAML text, fields in the order of the models. `escaped` text is plain ASCII."""
        return yaml.dump(self.to_dict(), Dumper=_Dumper, sort_keys=False, allow_unicode=not escaped)


def broken_by(model: Model, rules: "Sequence[Rule]") -> "list[Rule]":
    """Those of the rules that `model` breaks, each with its sentence about the model."""
    if not rules:
        return []
    held = truths([rule.cel for rule in rules], _as_cel(model))
    return [rule.about(model) for rule, holds in zip(rules, held, strict=True) if not holds]


def _as_cel(value: Any) -> Any:
    """A value as rules see it.

    What a mapping holds is text: labels are texts, rules read amounts as texts, and none reads free JSON.
    """
    if isinstance(value, Model):
        fields = type(value).model_fields.items()
        given = ((field.alias or name, getattr(value, name)) for name, field in fields)
        return {name: _as_cel(item) for name, item in given if item is not None}
    if isinstance(value, dict):
        return {key: str(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_cel(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)  # an amount
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def resolved(**limits: Any) -> Any:
    """A setting of an algorithm that a job may leave out: `resolve()` fills it in from the preset.

    It has its final type, because only a resolved job's settings are read by their names. What other blocks
    of a job may leave out is None in their `Given...` models.
    """
    return Field(default=None, **limits)


@dataclass(frozen=True)
class Rule:
    """A rule across the fields of one object, checked by these models and by the API server."""

    path: str
    """Where the mistake is reported: a camelCase path below the object, or "" for the object itself."""

    cel: str
    """The rule in CEL; `self` is the object. Use has() before a field that may be absent."""

    sentence: str
    """What is allowed, and the remedy."""

    exact: str | None = None
    """The sentence about one object, with `{name}` for the value of its text field of that name; None if
    `sentence` is enough."""

    def about(self, model: Any) -> Self:
        """The rule with the sentence about that object."""
        if self.exact is None:
            return self
        sentence = re.sub(r"{(\w+)}", lambda field: str(getattr(model, to_snake(field[1]))), self.exact)
        return replace(self, sentence=sentence)

    @property
    def message_expression(self) -> str | None:
        """The sentence of `about` as a CEL expression; None if `exact` is None."""
        if self.exact is None:
            return None
        parts = re.split(r"{(\w+)}", self.exact.replace("'", "\\'"))
        return " + ".join(f"self.{part}" if index % 2 else f"'{part}'" for index, part in enumerate(parts))

    @cached_property
    def reads(self) -> list[tuple[str, ...]]:
        """Paths below the object that the rule reads. A path may end with the name of a CEL method."""
        return [tuple(path.split(".")) for path in dict.fromkeys(re.findall(r"self\)?\.([\w.]+)", self.cel))]


def matches(pattern: str, text: str | None) -> bool:
    """Whether the whole text matches. An absent text counts as a match."""
    return text is None or re.fullmatch(pattern, text) is not None


def set_to(path: str, *texts: str) -> str:
    """CEL that is true if the field at `path` is one of `texts`, and false if it is absent."""
    among = f"== '{texts[0]}'" if len(texts) == 1 else f"in {list(texts)}"
    return f"(has(self.{path}) && self.{path} {among})"


def matching(path: str, pattern: str, sentence: str) -> Rule:
    """The rule that the text at `path`, if there is one, matches `pattern`. The pattern needs ^ and $."""
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.matches(r'{pattern}')",
        sentence=sentence,
    )


_rules: dict[type, list[Rule]] = defaultdict(list)


def declare(model: type[Model], *rules: Rule) -> None:
    """Let `model` obey `rules` from now on."""
    _rules[model].extend(rules)


def rules_of(model: type[Model]) -> list[Rule]:
    """The rules declared for `model` and its bases, in the order of declaration."""
    return [rule for base in reversed(model.__mro__) for rule in _rules.get(base, ())]
