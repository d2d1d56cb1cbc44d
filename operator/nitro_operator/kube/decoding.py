"""JSON from the API server. Values that are nested too deeply are cut off.

The API server stores up to 10,000 levels. Python's own decoder ends at about 1,000 with a RecursionError, and
one such object in a list would keep the operator from reading all others.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
from pydantic_core import from_json

KEPT_LEVELS = 128
"""Levels that are kept of JSON that the decoder refuses. It refuses more than 200 levels."""
SPEC_LEVELS = 64
"""Most levels of a job's spec. The limit is below KEPT_LEVELS, so a spec that was cut is always refused."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]')


def decode(raw: bytes) -> Any:
    """Parse JSON. Values below KEPT_LEVELS levels may be replaced by null.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(raw)
    except ValueError:  # not JSON, or too deep
        return from_json(_cut(raw))


async def lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """Yield lines of any length; aiohttp limits their length."""
    rest = bytearray()
    async for chunk in content.iter_any():
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            rest += line
            if rest:
                yield bytes(rest)
            rest.clear()
        rest += tail


def levels(value: Any) -> int:
    """Number of objects and lists that are nested in each other; 0 for a plain value."""
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(levels, value), default=0)
    return 0


def _cut(raw: bytes) -> bytes:
    """Replace by null every object and list that lies below KEPT_LEVELS others."""
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(raw):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == KEPT_LEVELS + 1:
                kept += [raw[start : token.start()], b"null"]
        elif token[0] in (b"}", b"]"):
            if depth == KEPT_LEVELS + 1:
                start = token.end()
            depth -= 1
    kept.append(raw[start:])
    return b"".join(kept)
