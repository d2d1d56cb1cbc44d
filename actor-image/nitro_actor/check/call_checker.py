"""What an environment's own reset and step return and change, seen from outside while an actor plays.

Nothing is wrapped: an actor looks at the types of an environment's wrappers.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium import spaces

from nitro_actor.check.findings import Findings
from nitro_actor.engines.returned import described


def misfit(space: Any, value: Any, what: str) -> str:
    """Why a value is not in its space; empty where it is.

    Args:
        what: the subject of the sentence.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            return (
                f"{what} is {described(value)}; its space has the keys {', '.join(map(repr, space.spaces))}"
            )
        misfits = (misfit(part, value[key], f"{what}[{key!r}]") for key, part in space.spaces.items())
        return next(filter(None, misfits), "")
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            return f"{what} is {described(value)}; its space is a Tuple of {len(space.spaces)} parts"
        misfits = (
            misfit(part, item, f"{what}[{index}]")
            for index, (part, item) in enumerate(zip(space.spaces, value, strict=True))
        )
        return next(filter(None, misfits), "")
    if isinstance(space, spaces.Box):
        return _of_box(space, value, what)
    if space.contains(value):
        return ""
    return f"{what} is {described(value)}, which is not in its space, {space}"


def _of_box(space: spaces.Box, value: Any, what: str) -> str:
    conversion = f"np.asarray(..., dtype=np.{space.dtype})"
    if not isinstance(value, np.ndarray | np.generic):
        return f"{what} is {described(value)}; its space is a Box, so return an array: {conversion}"
    if value.shape != space.shape:
        return f"{what} has the shape {list(value.shape)}, but its space says {list(space.shape)}"
    if not np.can_cast(value.dtype, space.dtype):
        return (
            f"{what} has the dtype {value.dtype}, but its space says {space.dtype}: return {conversion}, or "
            f"give the space dtype=np.{value.dtype}"
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        at, number = _first(value, ~np.isfinite(value))
        return f"{what}{at} is {number}: observations must be finite numbers"
    array = np.asarray(value)
    outside = (array < space.low) | (array > space.high)
    if outside.any():
        at, number = _first(value, outside)
        index = tuple(np.argwhere(outside)[0])
        return (
            f"{what}{at} is {number}, outside of its space, which goes from {space.low[index]:g} to "
            f"{space.high[index]:g} there: correct the space's bounds, or clip what is returned"
        )
    return ""


def _first(value: Any, wrong: Any) -> tuple[str, Any]:
    """The first number that is wrong, and its place."""
    index = tuple(np.argwhere(wrong)[0])
    return (f"[{', '.join(map(str, index))}]" if index else ""), np.asarray(value)[index]


class CallChecker:
    """Look at each call of one copy.

    Args:
        raw: an environment of gymnasium, or of PettingZoo's parallel interface.
    """

    def __init__(self, raw: Any, findings: Findings) -> None:
        self._findings = findings
        self._raw = raw
        self._several = hasattr(raw, "possible_agents")
        self._kept: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._own: dict[str, Any] = {}  # what the environment itself has set
        with suppress(Exception):  # its class may allow no other attribute, and then nothing is seen
            self._own = {name: vars(raw)[name] for name in ("reset", "step") if name in vars(raw)}
            raw.reset = functools.partial(self._reset, raw.reset)
            raw.step = functools.partial(self._step, raw.step)

    def end(self) -> None:
        """Look at no more calls."""
        with suppress(Exception):
            for name in ("reset", "step"):
                vars(self._raw).pop(name, None)
            vars(self._raw).update(self._own)

    def _reset(self, reset: Any, *args: Any, **kwargs: Any) -> Any:
        result = reset(*args, **kwargs)
        self._look(result, "reset")
        return result

    def _step(self, step: Any, action: Any) -> Any:
        before = copy.deepcopy(action)
        result = step(action)
        if not _equal(action, before):
            self._findings.tell(
                "fault",
                f"step changes the action that it is given, in place: it was {before!r:.80} and is "
                f"{action!r:.80}. Copy it first: action = np.array(action)",
                kind="action in place",
            )
        self._look(result, "step")
        return result

    def _look(self, result: Any, call: str) -> None:
        """Look at a result; one of another number of values is left to the engine."""
        if not isinstance(result, tuple | list) or len(result) != (2 if call == "reset" else 5):
            return
        self._changed("an observation", result[0], call)
        self._changed("an info", result[-1], call)
        for agent, space, observation in self._observations(result[0]):
            owner = f" of {agent}" if agent else ""
            if wrong := misfit(space, observation, f"the observation{owner} that {call} returns"):
                self._findings.tell("fault", wrong, kind="space")

    def _observations(self, given: Any) -> Iterator[tuple[str, Any, Any]]:
        if not self._several:
            yield "", self._raw.observation_space, given
        elif isinstance(given, Mapping):
            for agent, observation in given.items():
                if agent in self._raw.possible_agents:
                    yield agent, self._raw.observation_space(agent), observation

    def _changed(self, what: str, given: Any, call: str) -> None:
        """Tell whether arrays of an earlier call have changed since, and keep those of this call."""
        for array, before in self._kept.get(what, ()):
            if not _equal(array, before):
                level = "fault" if what == "an observation" else "warning"
                self._findings.tell(
                    level,
                    f"{call} changes {what} that an earlier call returned, in place: whoever kept it has "
                    "other numbers now. Return a new array each time, such as array.copy()",
                    kind=f"{what} in place",
                )
        self._kept[what] = [(array, array.copy()) for array in _arrays(given)]


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """The arrays in a value, however deeply they lie."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _arrays(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping):
        return set(first) == set(second) and all(_equal(first[key], second[key]) for key in first)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))
    return bool(first == second)
