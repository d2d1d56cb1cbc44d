"""Documentation of the job's fields, made from the models: `nitro explain spec.scaling.decay`."""

import textwrap
from functools import cache

from nitro_api.rules.update_rules import IMMUTABLE_SENTENCE, MENDABLE, MENDABLE_SENTENCE, MUTABLE
from nitro_api.schema.foreign_names import known_as
from nitro_api.schema.openapi import INT_OR_STRING, Schema, fields, job_schema, text_of, usual_preset_text
from nitro_api.schema.wording import allowed, ending_in, meant, nearest
from nitro_api.spec.scaling import HOLD_PATTERN

_COLUMN = 38
"""Where a field's text begins beside its name."""
_NARROW = 80
"""On fewer columns the text stands below the name."""


class UnknownField(ValueError):  # noqa: N818
    """The field does not exist; the message names the nearest one."""


def explain(path: str | None = None, width: int | None = None) -> str:
    """Text about one field; without `path`, or with a mere dot, the tree of all fields. `path` may leave out
    parents if it stays unique. Lines are wrapped at `width` columns; with None they are not wrapped. No text
    is cut.

    Raises UnknownField.
    """
    path = (path or "").strip().strip(".")
    if not path:
        return _tree("", job_schema(), width)
    full = _find(path)
    return _about(full, dict(fields())[full], width)


def _find(path: str) -> str:
    known = [name for name, _ in fields()]
    if path in known:
        return path
    paths = ending_in(path) or ending_in(path, "status")
    if len(paths) == 1:
        return paths[0]
    if paths:
        raise UnknownField(f"{path} may be {', '.join(paths)}; give the whole path")
    parent, _, last = path.rpartition(".")
    beside = {
        name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] in (parent, f"{parent}[]")
    }
    foreign = known_as(last)
    guess = f"spec.{foreign.field}" if foreign and last not in beside else meant(last, list(beside))
    guess = beside.get(guess or "", guess)
    if not guess and parent in known:
        raise UnknownField(f"{path} is not a field; see `nitro explain {parent}`")
    lasts = {name.rpartition(".")[2]: name for name in reversed(known)}
    guess = guess or nearest(path, known) or lasts.get(nearest(last, list(lasts)) or "")
    hint = f"did you mean {guess}?" if guess else "`nitro explain` lists all"
    raise UnknownField(f"{path} is not a field; {hint}")


def _about(path: str, schema: Schema, width: int | None) -> str:
    lines = [*_wrap(f"{path}  ({_type(schema)})", width, after="  "), ""]
    lines += _wrap(schema.get("description", ""), width)
    below = schema.get("items", schema)
    if "properties" not in below:
        lines += ["", *_wrap(f"Value: {allowed(schema)}.", width, after="  ")]
    for sentence in rules_at(path):
        lines += _wrap(f"Rule: {sentence}.", width, after="  ")
    if "properties" in below:
        tree = _tree(path, below, width and width - 2)
        lines += ["", "Fields:", textwrap.indent(tree, "  ")]
    return "\n".join(lines).rstrip() + "\n"


def _wrap(text: str, width: int | None, *, first: str = "", after: str = "") -> list[str]:
    """Lines of at most `width` columns, the first one beginning with `first` and the others with `after`."""
    if width is None:
        return [f"{first}{text}"]
    return textwrap.wrap(
        text,
        max(width, len(after) + 1),
        initial_indent=first,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )


def rules_at(path: str) -> list[str]:
    """The rules that are reported at that field."""
    sentences = []
    parts = path.split(".")
    for depth in range(len(parts)):
        owner, rest = ".".join(parts[:depth]), ".".join(parts[depth:])
        holder = _schemas().get(owner.removesuffix("[]"), {})
        rules = holder.get("items", holder).get("x-kubernetes-validations", ())
        sentences += [rule["message"] for rule in rules if rule["fieldPath"] == f".{rest}"]
    if len(parts) == 2 and parts[0] == "spec" and parts[1] not in (*MUTABLE, *MENDABLE):
        sentences.append(IMMUTABLE_SENTENCE)
    if path.removeprefix("spec.") in MENDABLE:
        sentences.append(MENDABLE_SENTENCE)
    return sentences


@cache
def _schemas() -> dict[str, Schema]:
    """The schema of each field by its path, and the job's own by an empty one."""
    return {"": job_schema(), **dict(fields())}


def _tree(parent: str, schema: Schema, width: int | None, indent: int = 0) -> str:
    """An entry for each field below `schema`: name, first sentence, type, default."""
    lines: list[str] = []
    for name, child in schema.get("properties", {}).items():
        path = f"{parent}.{name}" if parent else name
        head = f"{'  ' * indent}{name}"
        if path == "metadata":
            lines += _entry(head, "Name, namespace and labels, as Kubernetes has them", width)
            continue
        first = child.get("description", "").split(". ")[0].rstrip(".")
        lines += _entry(head, f"{first} ({_type(child)}{_default(path, child)})", width)
        below = child.get("items", child)
        if "properties" in below:
            lines.append(_tree(path, below, width, indent + 1))
    return "\n".join(line for line in lines if line)


def _entry(head: str, text: str, width: int | None) -> list[str]:
    """A field's name and its text, beside each other where the terminal is wide enough."""
    if width is not None and width < _NARROW:
        indent = " " * (len(head) - len(head.lstrip()) + 4)
        return [head, *_wrap(text, width, first=indent, after=indent)]
    return _wrap(text, width, first=f"{head:<{_COLUMN}} ", after=" " * (_COLUMN + 1))


def _default(path: str, schema: Schema) -> str:
    if values := usual_preset_text(path):
        return f"; {values}"
    if "default" in schema and not isinstance(schema["default"], dict):
        return f"; {text_of(schema['default'])}"
    return ""


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("pattern") == HOLD_PATTERN:
        return "integer | auto"
    if INT_OR_STRING in schema:
        return "quantity"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object" and "type" in schema.get("additionalProperties", ()):
        return f"map to {_type(schema['additionalProperties'])}"
    return kind
