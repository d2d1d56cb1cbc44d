"""The models as one JSON schema without references: the source of the CRD, of `explain` and of error
messages."""

import ast
import copy
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, cast

from nitro_api.algorithms.record import COLUMNS
from nitro_api.algorithms.registry import (
    RECORDS,
    TEAM_RECORDS,
    AnyHyperparameters,
    TeamHyperparameters,
    listed,
    owners_of,
)
from nitro_api.base import Model, Rule, rules_of
from nitro_api.resolution.presets import preset_values
from nitro_api.spec.free_json import PRESERVE
from nitro_api.spec.job import NitroTrainingJob

_UNIONS = {AnyHyperparameters: RECORDS, TeamHyperparameters: TEAM_RECORDS}


def descriptions(model: type[Model]) -> dict[str, str]:
    """The description of each field of a model by its name, bases included. A setting of several algorithms
    has the description of the first one, and says which algorithms have it.

    They are the docstrings below the fields, read from the source when a schema is made. pydantic would read
    them when each class is made, which makes every import of nitro_api slower.
    """
    if model not in _UNIONS:
        classes = [base for base in reversed(model.__mro__) if issubclass(base, Model)]
        return {name: text for base in classes for name, text in _own(base).items()}
    records = _UNIONS[model]
    merged: dict[str, str] = {}
    for record in records.values():
        for name, text in descriptions(record.hyperparameters).items():
            before, default, rest = text.partition("Default:")
            owners = ", ".join(owners_of(model.model_fields[name].alias or name, records))
            merged.setdefault(name, f"{before}Algorithms: {owners}. {default}{rest}".rstrip())
    return merged


def _own(model: type[Model]) -> dict[str, str]:
    """Descriptions of the fields that the class itself declares."""
    body = _classes(model.__module__).get(model.__name__, ())
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """The bodies of a module's classes by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


Schema = dict[str, Any]
INT_OR_STRING = "x-kubernetes-int-or-string"


def schema_of(model: type[Model]) -> Schema:
    """Structural OpenAPI schema of a model, with its rules as CEL. A new object at each call."""
    return copy.deepcopy(_schema_of(model))


@cache
def _schema_of(model: type[Model]) -> Schema:
    raw = model.model_json_schema(by_alias=True)
    definitions = raw.pop("$defs", {})
    for name, text in descriptions(model).items():
        raw["properties"][model.model_fields[name].alias or name].setdefault("description", text)
    schema = _structural(raw, definitions)
    _default_objects(model, schema)
    if rules := rules_of(model):
        schema["x-kubernetes-validations"] = list(map(_validation, rules))
    return schema


def _validation(rule: Rule) -> dict[str, str]:
    shown = {"rule": rule.cel, "message": rule.sentence}
    if rule.message_expression:
        shown["messageExpression"] = rule.message_expression
    return {**shown, "fieldPath": f".{rule.path}"}


def _default_objects(model: type[Model], schema: Schema) -> None:
    """Give each object that may be left out a default, which includes the defaults of its fields.

    With `{}` as default, the API server would check the rules against an object without these fields.
    """
    for name, field in model.model_fields.items():
        if field.default_factory is not None:
            shown = schema["properties"][field.alias or name]
            properties = shown.get("properties", {})
            shown["default"] = {
                key: copy.deepcopy(p["default"]) for key, p in properties.items() if "default" in p
            }


def _structural(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """`node` in the subset of OpenAPI that a CRD allows."""
    node = {key: value for key, value in node.items() if key != "title" and (key, value) != ("default", None)}
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    if "$ref" in node:
        target = _schema_of(_models()[node.pop("$ref").rpartition("/")[2]])
        return {**copy.deepcopy(target), **node}
    alternatives = [item for item in node.get("anyOf", []) if item != {"type": "null"}]
    if len(alternatives) == 1:
        node.pop("anyOf")
        return _structural({**alternatives[0], **node}, definitions)
    if "const" in node:
        node["enum"] = [node.pop("const")]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in node:
            node[limit], node[bound] = node[bound], True
    if "properties" in node:
        node["properties"] = {
            name: _structural(item, definitions) for name, item in node["properties"].items()
        }
    if "items" in node:
        node["items"] = _structural(node["items"], definitions)
    values = node.pop("additionalProperties", None)
    if values is True:
        node[PRESERVE] = True
    elif isinstance(values, dict):
        node["additionalProperties"] = _structural(values, definitions)
    first = ("description", "type", "default", "required")
    return {key: node[key] for key in (*first, *node) if key in node}


def _models() -> dict[str, type[Model]]:
    models: dict[str, type[Model]] = {}
    pending: list[type[Model]] = [Model]
    while pending:
        model = pending.pop()
        models[model.__name__] = model
        pending += model.__subclasses__()
    return models


@cache
def job_schema() -> Schema:
    """The whole job's schema, with the presets' values in the descriptions. It is cached: never change it."""
    schema = schema_of(NitroTrainingJob)
    for path, field in fields(schema):
        if values := preset_text(path):
            field["description"] = field["description"].replace("the preset's", values)
    return schema


def preset_text(path: str) -> str:
    """The presets' values of a field with all cases that differ; empty if no preset has one.

    The first algorithm that has the field gives the usual values; the others are the cases.
    """
    usual = usual_preset_text(path)
    if not usual:
        return ""
    owner, *others = (name for name in RECORDS if _preset_text(path, name))
    atari = _preset_text(path, owner, atari=True)
    named = _named_cases(path, others)
    special = {
        **{names: text for names, (text, _) in named.items()},
        "for Atari games": atari,
        "with type: conv": _preset_text(path, owner, conv=True),
    }
    different = [f"{case} {text}" for case, text in special.items() if text != usual]
    for names, (text, both) in named.items():
        # If only one of the two cases differs, a reader assumes that it holds in the other case too.
        if both and {both} != ({text, atari} - {usual} or {usual}):
            different.append(f"{names} for Atari games {both}")
    return f"{usual} ({'; '.join(different)})" if different else usual


def _named_cases(path: str, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The values of algorithms as two texts: the usual one, and the one for Atari games. The key names all
    algorithms with the same texts. No game has several agents, so the second text of algorithms for several
    agents is empty."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        both = _preset_text(path, name, atari=True) if RECORDS[name].agents == "one" else ""
        groups.setdefault((_preset_text(path, name), both), []).append(name)
    return {_called(names): texts for texts, names in groups.items()}


def _called(names: list[str]) -> str:
    if names == [name for name, record in RECORDS.items() if record.settings == "rllib"]:
        return "with RLlib's algorithms"
    return f"with name: {listed(names, 'or')}"


def usual_preset_text(path: str) -> str:
    """The presets' values of a field, such as `paper 0.96, tuned 0.995`; empty if no preset has one."""
    return next(filter(None, (_preset_text(path, name) for name in RECORDS)), "")


def _preset_text(path: str, algorithm: str, **kind: Any) -> str:
    values = {
        name: preset_values(name, algorithm=algorithm, **kind).get(path.removeprefix("spec."))
        for name in COLUMNS
    }
    shown = {name: text_of(value) for name, value in values.items() if value is not None}
    if len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def text_of(value: Any) -> str:
    """A default as one would write it in YAML."""
    return (
        f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )


def schema_at(path: tuple[int | str, ...], root: Schema | None = None) -> Schema | None:
    """Schema of the field at that place of the job (or of `root`), None where there is none."""
    node: Schema | None = job_schema() if root is None else root
    for part in path:
        if node is None:
            return None
        node = cast("Schema | None", node.get("items") if isinstance(part, int) else _child(node, part))
    return node


def _child(node: Schema, name: str) -> Schema | None:
    child = node.get("properties", {}).get(name, node.get("additionalProperties"))
    return cast("Schema | None", child)


def fields(node: Schema | None = None, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every field with its full path, parents first; that of a list's items is `parent[]`."""
    node = job_schema() if node is None else node
    if "items" in node and "properties" in node["items"]:
        yield from fields(node["items"], f"{path}[]")
    for name, child in node.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below, child
        yield from fields(child, below)
