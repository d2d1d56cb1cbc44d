"""Documentation of the job's fields, made from the models: `nitro explain spec.scaling.decay`."""

from __future__ import annotations

import textwrap

from nitro_api.rules import IMMUTABLE_SENTENCE, MUTABLE
from nitro_api.schema import INT_OR_STRING, Schema, fields, job_schema, text_of, usual_preset_text
from nitro_api.wording import allowed, nearest

WIDTH = 110


class UnknownField(ValueError):  # noqa: N818
    """There is no such field; the message names the nearest."""


def explain(path: str | None = None) -> str:
    """Text about one field, or the tree of all with None. `path` may leave out parents where it stays unique.

    Raises UnknownField.
    """
    if not path:
        return _tree("", job_schema())
    full = _find(path.strip().strip("."))
    return _about(full, dict(fields())[full])


def _find(path: str) -> str:
    known = [name for name, _ in fields()]
    if path in known:
        return path
    ending = [name for name in known if name.endswith(f".{path}") and not name.startswith("metadata")]
    in_spec = [name for name in ending if name.startswith("spec.")] or ending
    if len(in_spec) == 1:
        return in_spec[0]
    if in_spec:
        raise UnknownField(f"{path} may be {', '.join(in_spec)}; give the whole path")
    parent, _, last = path.rpartition(".")
    siblings = [name for name in known if name.rpartition(".")[0] == parent]
    lasts = {name.rpartition(".")[2]: name for name in reversed(known)}
    close = nearest(last, [name.rpartition(".")[2] for name in siblings]) if siblings else None
    if close:
        raise UnknownField(f"{path} is not a field; did you mean {parent + '.' if parent else ''}{close}?")
    guess = nearest(path, known) or lasts.get(nearest(last, list(lasts)) or "")
    hint = f"did you mean {guess}?" if guess else "`nitro explain` lists all"
    raise UnknownField(f"{path} is not a field; {hint}")


def _about(path: str, schema: Schema) -> str:
    lines = [f"{path}  ({_type(schema)})", ""]
    lines += textwrap.wrap(schema.get("description", ""), WIDTH, break_on_hyphens=False)
    below = schema.get("items", schema)
    if "properties" not in below:
        lines += ["", f"Value: {allowed(schema)}."]
    for sentence in _sentences(path):
        lines += textwrap.wrap(f"Rule: {sentence}.", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if "properties" in below:
        lines += ["", "Fields:", textwrap.indent(_tree(path, below), "  ")]
    return "\n".join(lines).rstrip() + "\n"


def _sentences(path: str) -> list[str]:
    """The rules that are reported at that field."""
    found = []
    parts = path.split(".")
    schemas = {"": job_schema(), **dict(fields())}
    for depth in range(len(parts)):
        owner, rest = ".".join(parts[:depth]), ".".join(parts[depth:])
        holder = schemas.get(owner.removesuffix("[]"), {})
        rules = holder.get("items", holder).get("x-kubernetes-validations", ())
        found += [rule["message"] for rule in rules if rule["fieldPath"] == f".{rest}"]
    if len(parts) == 2 and parts[0] == "spec" and parts[1] not in MUTABLE:
        found.append(IMMUTABLE_SENTENCE)
    return found


def _tree(parent: str, schema: Schema, indent: int = 0) -> str:
    """One line for each field below `schema`: name, type, default, first sentence."""
    lines = []
    for name, child in schema.get("properties", {}).items():
        path = f"{parent}.{name}" if parent else name
        if path == "metadata":
            lines.append(f"{'metadata':<38} Name, namespace and labels, as Kubernetes has them")
            continue
        default = _default(path, child)
        first = child.get("description", "").split(". ")[0].rstrip(".")
        head = f"{'  ' * indent}{name}"
        kind = _type(child)
        if "enum" in child and len(kind) > WIDTH // 2:
            kind = f"one of {len(child['enum'])}"
        room = WIDTH - 42 - len(kind) - len(default)
        short = textwrap.shorten(first, max(room, 24), placeholder="...") if room < len(first) else first
        lines.append(f"{head:<38} {short} ({kind}{default})")
        below = child.get("items", child)
        if "properties" in below:
            lines.append(_tree(path, below, indent + 1))
    return "\n".join(line for line in lines if line)


def _default(path: str, schema: Schema) -> str:
    if values := usual_preset_text(path):
        return f"; {values}"
    if "default" in schema and not isinstance(schema["default"], dict):
        return f"; {text_of(schema['default'])}"
    return ""


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if INT_OR_STRING in schema:
        return "quantity"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object" and "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return kind
