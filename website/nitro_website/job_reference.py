"""The reference of a job's fields, from the models: text, unit, default and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from nitro_api.schema.explain import rules_at
from nitro_api.schema.openapi import Schema, fields, text_of
from nitro_api.schema.wording import allowed

_UNIT = re.compile(r"\s*Unit: ([^.]+)\.")
_DEFAULT = re.compile(r"\s*Default: (.*)\.$")
_JOB = """\
# The job, field by field

Made from the models of the job. `nitro explain spec.scaling` prints the same in a terminal. A default that is
different for each preset names the presets: `paper 64, tuned 8`. `[]` stands for each entry of a list.

`metadata` is that of every Kubernetes object; only its `name` is used.

| section of `spec` | what it says |
|---|---|
"""
_STATUS = """\
# The status of a job, field by field

The operator and the learner write it, and `kubectl get ntj NAME -o yaml` shows it. What conditions mean and
what to do: [operations](../operations.md#conditions-and-what-to-do).
"""
_FOLDER = "reference/job"


def pages() -> dict[str, str]:
    """Name on the site -> Markdown: a page for the job, one for each object of `spec`, one for the status."""
    found = {f"{_FOLDER}/index.md": _job_page()}
    for section in sections():
        found[page_of(section)] = "\n".join(_objects(f"spec.{section}", level=1))
    return {**found, "reference/status.md": "\n".join([_STATUS, *_objects("status", level=2)])}


def sections() -> list[str]:
    """The objects of `spec`, in its order."""
    return [name for name, child in _properties("spec").items() if _children(_everything()[child])]


def page_of(section: str) -> str:
    """The name on the site of a section's page."""
    return f"{_FOLDER}/{section}.md"


def _job_page() -> str:
    rows = (
        f"| [{section}]({section}.md) | {_first(_everything()[f'spec.{section}'])} |"
        for section in sections()
    )
    return "\n".join([_JOB + "\n".join(rows) + "\n", *_object("spec", level=2, parts=False)])


def _objects(top: str, level: int) -> Iterator[str]:
    """An object, and all that are in it."""
    inside = [path for path in _everything() if path == top or path.startswith((f"{top}.", f"{top}["))]
    for path in inside:
        if _children(_everything()[path]):
            yield from _object(
                path, level if path == top else min(level + path.count(".") - top.count("."), 3)
            )


def _object(path: str, level: int, *, parts: bool = True) -> Iterator[str]:
    """A heading for an object, its text and rules, and an entry for each field that is no object."""
    schema = _everything()[path]
    entries = f"{path}[]" if "items" in schema else path
    required = schema.get("items", schema).get("required", ())
    yield f"{'#' * level} {entries} {{ #{_anchor(path)} }}\n\n{_text(schema.get('description', ''))}\n"
    yield from (f"Rule: {rule}.\n" for rule in rules_at(path))
    names = _properties(path)
    objects = [child for child in names.values() if _children(_everything()[child])]
    if objects and parts:
        yield f"Objects in it: {', '.join(f'[`{child}`](#{_anchor(child)})' for child in objects)}.\n"
    for name, child in names.items():
        if child not in objects:
            yield _entry(child, name, _everything()[child], required=name in required)


def _entry(path: str, name: str, schema: Schema, *, required: bool) -> str:
    text = schema.get("description", "")
    unit, default = _UNIT.search(text), _DEFAULT.search(text)
    facts = [allowed(schema).removeprefix("must be ")]
    if unit:
        facts.append(f"unit: {unit[1]}")
    if required:
        facts.append("required")
    elif default:
        facts.append(f"default: {default[1]}")
    elif "default" in schema:
        facts.append(f"default: {text_of(schema['default'])}")
    plain = _DEFAULT.sub("", _UNIT.sub("", text))
    lines = [
        f"#### {name} {{ #{_anchor(path)} }}",
        "",
        _text("; ".join(facts)),
        "{ .facts }",
        "",
        _text(plain),
        "",
    ]
    return "\n".join([*lines, *(f"Rule: {_text(rule)}.\n" for rule in rules_at(path))])


@cache
def _everything() -> Mapping[str, Schema]:
    return dict(fields())


def _properties(path: str) -> dict[str, str]:
    """The fields of an object: name -> path."""
    schema = _everything()[path]
    entries = f"{path}[]" if "items" in schema else path
    return {name: f"{entries}.{name}" for name in schema.get("items", schema)["properties"]}


def _first(schema: Schema) -> str:
    """The first sentence of a field's text, in a table."""
    return _text(schema.get("description", "").split(". ")[0].rstrip(".")).replace("|", "\\|")


def _children(schema: Schema) -> bool:
    return "properties" in schema.get("items", schema)


def _anchor(path: str) -> str:
    return path.replace("[]", "")


def _text(text: str) -> str:
    """Text whose signs Markdown would take for its own."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
