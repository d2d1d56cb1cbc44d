"""Reading metadata strictly: every field has one type and one range, and an error names the field."""

import re
from collections.abc import Mapping
from typing import Any

from nitro_actor import PROTOCOL_VERSION
from nitro_actor.wire import WireError

RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of agents, agent classes and policies."""


class MetadataError(WireError):
    """A complete message whose metadata breaks the protocol. The text names the field."""


class ProtocolError(MetadataError):
    """A message of another protocol version. The text names both versions."""


def require_version(meta: Mapping[str, Any], message: str, reader: str) -> None:
    """Refuse a message of another version.

    Raises:
        ProtocolError: naming the version of the message and of its reader.
    """
    # Weights and fragments of version 1 called the field `schema`.
    version = meta.get("protocol", meta.get("schema"))
    if version != PROTOCOL_VERSION or "protocol" not in meta:
        raise ProtocolError(
            f"{message} is of protocol {version!r}, this {reader} speaks {PROTOCOL_VERSION}; "
            "use learner and actor images of one release"
        )


def mapping(meta: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Read a JSON object."""
    value = meta.get(name)
    if not isinstance(value, dict):
        raise MetadataError(f"{name}: must be an object")
    return value


def whole(meta: Mapping[str, Any], name: str, *, low: int = 0, high: int = 2**53) -> int:
    """Read a whole number from `low` to `high`."""
    value = meta.get(name)
    if type(value) is not int or not low <= value <= high:
        raise MetadataError(f"{name}: {value!r} is no whole number from {low} to {high}")
    return value


def truth(meta: Mapping[str, Any], name: str) -> bool:
    """Read true or false."""
    value = meta.get(name)
    if not isinstance(value, bool):
        raise MetadataError(f"{name}: {value!r} is neither true nor false")
    return value


def matching(meta: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    """Read a text that has the pattern; `what` says in the error what it should be."""
    value = meta.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise MetadataError(f"{name}: {value!r} is no name of {what}")
    return value
