"""Reading a job file: YAML as kubectl reads it, and a clear message for every mistake in it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from nitro_api.errors import ABSENT, FieldError, JobInvalid

MAX_BYTES = 1 << 20
"""The API server takes no larger object."""
MAX_NODES = 100_000
"""Most values in a job. An alias counts each time it is used: a few lines of aliases can mean billions."""

_FLOAT = re.compile(
    r"^[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"
)
_INT = re.compile(r"^[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")

_UNPRINTABLE = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")


def to_yaml(value: Any) -> bytes:
    """JSON that is YAML as well, for the API server's apply. JSON may write a character beyond 16 bits as two
    escapes, which YAML refuses. YAML requires an escape for some characters that JSON accepts unchanged."""
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", text).encode()


class _Loader(yaml.SafeLoader):
    """YAML as kubectl has it: 3e-4 is a number, 1:30 and 2026-01-01 are text, y is true. But 3.0 stays a
    float: `as_stored` says where it becomes an integer."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [
            (tag, pattern) for tag, pattern in resolvers if not tag.endswith((":float", ":int", ":timestamp"))
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def integer(self, node: yaml.ScalarNode) -> float | int | str:
        text = str(node.value).replace("0o", "0")
        try:
            value = self.construct_yaml_int(yaml.ScalarNode(node.tag, text))
            return value if -(2**63) <= value < 2**64 else float(value)
        except (ValueError, OverflowError):  # no digits, as in 0x_, or too many for a float
            return str(node.value)

    def truth(self, node: yaml.ScalarNode) -> bool:
        return str(node.value).lower() in ("yes", "true", "on", "y")


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)
_Loader.add_constructor("tag:yaml.org,2002:bool", _Loader.truth)


def whole_if_integral(value: float) -> float | int:
    """The number as the API server keeps it: 3.0 is the integer 3."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


UNTYPED = (
    ("spec", "environment", "kwargs"),
    ("spec", "algorithm", "settings"),
    ("spec", "scaling", "settings"),
    ("spec", "network", "settings"),
)
"""The fields in which a float stays a float: their values go to a constructor that is not ours. All others
have a type, RLlib's settings too, so 2.0 and 2 mean the same there."""

_MOST_LEVELS = 40
"""Most levels that are read: more than any field of a job may have, and far fewer than Python's recursion
allows."""


def as_stored(value: Any, place: Sequence[str] = (), levels: int = _MOST_LEVELS) -> Any:
    """A copy of what stands at a place of a job, with numbers as the API server stores them: 2.0 becomes 2,
    except in UNTYPED. An object or a list deeper than `levels` becomes a text. It is a mistake in every
    field, so its contents do not matter."""
    if isinstance(value, dict | list) and not levels:
        return "..."
    if isinstance(value, dict):
        return {key: as_stored(item, (*place, str(key)), levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [as_stored(item, place, levels - 1) for item in value]
    if isinstance(value, float) and tuple(place[:3]) not in UNTYPED:
        return whole_if_integral(value)
    return value


def read(path: Path) -> tuple[Any, list[FieldError]]:
    """Contents of the job file, and keys written twice. Raises JobInvalid when it cannot be read at all."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refused(f"{path}: does not exist; check the path") from None
    except IsADirectoryError:
        raise _refused(f"{path}: is a folder; name the file in it") from None
    except OSError as error:
        raise _refused(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise _refused(f"{path}: is larger than 1 MiB, where a few dozen lines are usual; check the path")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse(text, str(path))


def parse(text: str, source: str = "job") -> tuple[Any, list[FieldError]]:
    """The one document in `text`, and keys written twice. Raises JobInvalid when it is no single YAML
    document."""
    try:
        loader = _Loader(text)
        documents: list[yaml.Node] = []
        while loader.check_node():
            node = loader.get_node()
            if node is not None and node.tag != "tag:yaml.org,2002:null":
                documents.append(node)
        if not documents:
            raise _refused(f"{source}: is empty; see examples/ for jobs and experiments/ for experiments")
        if len(documents) > 1:
            line = documents[1].start_mark.line + 1
            raise _refused(
                f"{source}: holds {len(documents)} documents, the second from line {line}; "
                "put each in a file of its own"
            )
        root = documents[0]
        _check_size(root, source)
        duplicates = _duplicates(root)
        return loader.construct_document(root), duplicates
    except yaml.reader.ReaderError as error:
        raise _refused(
            f"{source}: holds a character that is not text (position {error.position}); remove it"
        ) from None
    except yaml.MarkedYAMLError as error:
        raise _refused(f"{source}: {_explained(error, text)}") from None
    except RecursionError:
        raise _refused(f"{source}: is nested too deeply; a job has at most a dozen levels") from None
    except ValueError as error:
        if isinstance(error, JobInvalid):
            raise
        raise _refused(f"{source}: holds a value that cannot be read ({error})") from None


def parse_value(text: str) -> Any:
    """A single YAML value, as in `--set spec.seed=3`. Raises JobInvalid."""
    if not text.strip():
        return ""
    value, duplicates = (
        parse(text, "value") if text.strip() not in ("null", "~", "Null", "NULL") else (None, [])
    )
    if duplicates:
        raise JobInvalid(duplicates)
    return value


def _refused(message: str) -> JobInvalid:
    return JobInvalid([FieldError("", ABSENT, message)])


def _explained(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return str(error)
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    if "\t" in line[: mark.column + 1]:
        return f"{where}: a tab; YAML is indented by spaces only, replace the tab"
    return f"{where}: {error.problem or error.context}; correct the YAML there"


def _check_size(root: yaml.Node, source: str) -> None:
    """Refuse aliases that contain themselves, and those that multiply into more than MAX_NODES values."""
    sizes: dict[int, int] = {}
    unfinished: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in unfinished:
            raise _refused(
                f"{source}: line {node.start_mark.line + 1}: a value that contains itself; write it out"
            )
        if id(node) not in sizes:
            unfinished.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            unfinished.remove(id(node))
        return sizes[id(node)]

    if size(root) > MAX_NODES:
        raise _refused(f"{source}: holds more than {MAX_NODES} values; a job has a few dozen")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _duplicates(root: yaml.Node) -> list[FieldError]:
    """Keys that one mapping has twice. YAML forbids them; PyYAML silently takes the last."""
    mistakes: list[FieldError] = []
    visited: set[int] = set()

    def visit(node: yaml.Node, path: str) -> None:
        if id(node) in visited:
            return
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                visit(child, f"{path}[{index}]")
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                name = str(key.value)
                below = f"{path}.{name}" if path else name
                line = key.start_mark.line + 1
                if name in lines and key.tag != "tag:yaml.org,2002:merge":
                    message = f"is written twice, in lines {lines[name]} and {line}; remove one"
                    mistakes.append(FieldError(below, ABSENT, message))
                lines[name] = line
                visit(value, below)

    visit(root, "")
    return mistakes
