"""The reference of a job's fields, from the models: text, unit, default and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
"""
_STATUS = """\
# The status of a job, field by field

The operator and the learner write it, and `kubectl get ntj NAME -o yaml` shows it. What conditions mean and
what to do: [operations](../operations.md#conditions-and-what-to-do).
"""


def job_page() -> str:
    """Markdown: a section for each object of `spec`, and in it a section for each field."""
    return "\n".join([_JOB, *_sections("spec")])


def status_page() -> str:
    """As `job_page`, of `status`."""
    return "\n".join([_STATUS, *_sections("status")])


def _sections(top: str) -> Iterator[str]:
    everything = dict(fields())
    objects = [path for path, schema in everything.items() if path.split(".")[0] == top and _children(schema)]
    for path in objects:
        schema = everything[path]
        below = schema.get("items", schema)
        entries = f"{path}[]" if "items" in schema else path
        level = "##" if path.count(".") < 2 else "###"
        yield f"{level} {entries} {{ #{_anchor(path)} }}\n\n{_text(schema.get('description', ''))}\n"
        yield from (f"Rule: {rule}.\n" for rule in rules_at(path))
        names = {name: f"{entries}.{name}" for name in below["properties"]}
        if parts := [child for child in names.values() if _children(everything[child])]:
            yield f"Objects in it: {', '.join(f'[`{child}`](#{_anchor(child)})' for child in parts)}.\n"
        for name, child in names.items():
            if child not in parts:
                yield _entry(child, name, everything[child], required=name in below.get("required", ()))


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


def _children(schema: Schema) -> bool:
    return "properties" in schema.get("items", schema)


def _anchor(path: str) -> str:
    return path.replace("[]", "")


def _text(text: str) -> str:
    """Text whose signs Markdown would take for its own."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
