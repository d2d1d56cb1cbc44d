"""What an environment returned: each value is checked, apart from the environment's own errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nitro_actor import traces

_TOO_LARGE = (2 - 2**-24) * 2.0**127
"""The smallest number that float32 rounds to infinity."""

STEP = ("observation", "reward", "terminated", "truncated", "info")
RESET = ("observation", "info")
"""What gymnasium's calls return."""

_RESULTS = {"step": STEP, "reset": RESET}
_NUMBERS = {2: "two", 5: "five"}

AGENTS_STEP = ("observations", "rewards", "terminations", "truncations", "infos")
AGENTS_RESET = ("observations", "infos")
"""The same of PettingZoo's."""


class Unfit(ValueError):  # noqa: N818 - it is a value
    """A value that no environment may return. The text says what it is, and what it should be."""


def values(result: Any, names: Sequence[str], call: str) -> Any:
    """The values of a result, as many as there are names.

    Raises:
        Unfit: there are others.
    """
    if type(result) is tuple and len(result) == len(names):
        return result
    if isinstance(result, tuple | list) and len(result) == len(names):
        return tuple(result)
    count = f" with {len(result)} values" if isinstance(result, tuple | list) else ""
    who = "PettingZoo" if names in (AGENTS_STEP, AGENTS_RESET) else "gymnasium"
    raise Unfit(f"{call} returned {described(result)}{count}; {who}'s {call} returns {_all_of(names)}")


def unpacked(error: BaseException, call: str) -> str:
    """What a wrapper's error about the number of values says of the environment in it; empty of others.

    A wrapper that unpacks a result of another number raises before anybody can look at the result.
    """
    if not isinstance(error, ValueError) or "values to unpack" not in str(error) or call not in _RESULTS:
        return ""
    return f"; gymnasium's {call} returns {_all_of(_RESULTS[call])}"


def reward(value: Any, agent: str = "") -> float:
    """A reward as a number; arrays of one number are taken for it.

    Args:
        agent: whose reward it is, in PettingZoo's interface.

    Raises:
        Unfit: it is no number, or not finite as float32.
    """
    if type(value) is float and -_TOO_LARGE < value < _TOO_LARGE:
        return value
    try:
        number = float(value)
    except Exception:  # a type of the user's own may raise anything
        array = _array(value)
        if array is None or array.size != 1 or array.dtype.kind not in "fiub":
            raise Unfit(_of(agent, "the reward", value, "a float")) from None
        number = float(array.reshape(-1)[0])
    if -_TOO_LARGE < number < _TOO_LARGE:
        return number
    raise Unfit(
        _of(agent, "the reward", value, "a finite number, here of at most 3.4e+38, the largest float32")
    )


def flag(value: Any, what: str, agent: str = "") -> bool:
    """Whether an episode ended. None is no, and arrays of one value are taken for it.

    Args:
        what: subject of the sentence if it is neither.
        agent: whose it is, in PettingZoo's interface.

    Raises:
        Unfit: it is neither a truth value nor a number.
    """
    if value is False or value is True:
        return value
    if value is None:
        return False
    array = _array(value)
    if array is None or array.size != 1 or array.dtype.kind not in "fiub":
        raise Unfit(_of(agent, what, value, "a bool"))
    return bool(array.reshape(-1)[0])


def numbers(value: Any, what: str) -> np.ndarray:
    """An array of numbers.

    Raises:
        Unfit: it is no such array. `what` begins the sentence.
    """
    array = value if type(value) is np.ndarray else _array(value)
    if array is not None and array.dtype.kind == "O":  # such as numbers of the module decimal
        array = _as_floats(array)
    if array is None or array.dtype.kind not in "fiub":
        raise Unfit(f"{what} is {described(value)}; it must be an array of numbers, as its space says")
    return array


def described(value: Any) -> str:
    """A value for a message: its beginning, its type, and its shape and dtype where it has them."""
    text = f"{traces.shown(value)}, of type {type(value).__name__}"
    if isinstance(value, np.ndarray):
        text += f", shape {list(value.shape)} and dtype {value.dtype}"
    return text


def _all_of(names: Sequence[str]) -> str:
    return f"{_NUMBERS[len(names)]} values: {', '.join(names)}"


def _of(agent: str, what: str, value: Any, expected: str) -> str:
    """The sentence about one wrong value."""
    subject, who = (f"{what} of {agent}", "PettingZoo") if agent else (what, "gymnasium")
    return f"{subject} is {described(value)}; {who} expects {expected}"


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except Exception:  # rows of several lengths, a tensor on a GPU, or what a type of the user's own raises
        return None


def _as_floats(array: np.ndarray) -> np.ndarray | None:
    try:
        return np.array([float(item) for item in array.ravel()], np.float64).reshape(array.shape)
    except Exception:  # as above
        return None
