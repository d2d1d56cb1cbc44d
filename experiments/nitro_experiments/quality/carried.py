"""What a learner carries from a slot's fragment to its next one, in the learner's saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CARRIED = "running"
"""The name under which rewards' normalisers and critics' memories save it, by slot."""


def copied(saved: Any, sources: Mapping[int, int]) -> Any:
    """A learner's saved state, for slots that go on with copies of other slots' episodes.

    Args:
        saved: a learner's `state_dict()`, or what holds some.
        sources: the slot whose episodes a slot goes on with.
    """
    if isinstance(saved, list):
        return [copied(item, sources) for item in saved]
    if not isinstance(saved, Mapping):
        return saved
    return {
        name: _copied(value, sources) if name == _CARRIED else copied(value, sources)
        for name, value in saved.items()
    }


def _copied(carried: Mapping[str, Any], sources: Mapping[int, int]) -> dict[str, Any]:
    kept = {slot: value for slot, value in carried.items() if int(slot) not in sources}
    return kept | {
        str(slot): carried[str(source)].copy() for slot, source in sources.items() if str(source) in carried
    }
