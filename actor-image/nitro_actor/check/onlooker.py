"""What an environment's own reset and step return and change, seen from outside while an actor plays.

Nothing is wrapped: an actor looks at the types of an environment's wrappers.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from nitro_actor.check.contained import misfit
from nitro_actor.check.findings import Findings


class Onlooker:
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
        for one in value.values():
            yield from _arrays(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _arrays(one)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return set(one) == set(other) and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    return bool(one == other)
