"""Observations become rows of an array: each part of them is checked, then written to its place.

A Box is written as it is. A space of several parts becomes one vector, with the numbers and in the order of
gymnasium's `FlattenObservation`: a Dict and a Tuple their parts one after another, whole numbers one-hot.
"""

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from nitro_actor.engines.returned import Unfit, described, numbers
from nitro_actor.spaces import misfit

_Write = Callable[[Any, np.ndarray], None]
"""Check a part and write it to its place in a row."""


class Observations:
    """The reader of one space's observations.

    Args:
        what: the subject of an error's sentence.

    Attributes:
        shape: of a row.
    """

    def __init__(self, space: Any, what: str = "an observation") -> None:
        self.shape: tuple[int, ...]
        self._what = what
        self._places: list[tuple[str, int]] = []
        self._write: _Write
        if isinstance(space, Box):
            self.shape = space.shape
            self._write = _Array(what, space)
            exact = space.dtype in (np.float32, np.uint8)
        else:
            self._write, size = self._part(space, "", 0)
            self.shape = (size,)
            exact = False
        self._exact = space.dtype if exact else None
        # NumPy's error state is the environment's to set, and ours here.
        self._context = contextvars.copy_context()
        self._context.run(np.seterr, all="ignore", over="raise")

    def read(self, observation: Any, row: np.ndarray) -> None:
        """Check an observation and write it to a row.

        Raises:
            Unfit: it does not fit its space.
        """
        # Nearly all arrays are such: they are written as they are.
        if (
            self._exact is not None
            and type(observation) is np.ndarray
            and observation.dtype == self._exact
            and observation.shape == self.shape
        ):
            row[...] = observation
        else:
            self._context.run(self._write, observation, row)

    def place(self, index: int) -> str:
        """The name of the part that wrote the number at an index of a row; empty of a Box."""
        return next((name for name, first in reversed(self._places) if first <= index), "")

    def _part(self, space: Any, name: str, first: int) -> tuple[_Write, int]:
        """What writes a part from its first number on, and where the next part begins."""
        if isinstance(space, Dict | Tuple):
            writes: list[tuple[Any, _Write]] = []
            for key, part in space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces):
                write, first = self._part(part, f"{name}[{key!r}]", first)
                writes.append((key, write))
            kind = _Mapping if isinstance(space, Dict) else _Row
            return kind(self._subject(name), writes), first
        self._places.append((name, first))
        what = self._subject(name)
        made: _Discrete | _MultiDiscrete | _Flat
        if isinstance(space, Discrete):
            made = _Discrete(what, space, first)
        elif isinstance(space, MultiDiscrete):
            made = _MultiDiscrete(what, space, first)
        else:
            made = _Flat(what, space, first)
        return made, made.last

    def _subject(self, name: str) -> str:
        return f"{name} of {self._what}" if name else self._what


class _Array:
    """A Box, or bits: an array of a shape and dtype."""

    def __init__(self, what: str, space: Any) -> None:
        self._what = what
        self._shape, self._dtype = space.shape, space.dtype
        self._bits = isinstance(space, MultiBinary)

    def checked(self, value: Any) -> np.ndarray:
        """The value as an array that fits the space."""
        if type(value) is np.ndarray and value.dtype == self._dtype and value.shape == self._shape:
            return value if not self._bits else self._only_bits(value)
        array = numbers(value, self._what)
        if array.shape != self._shape:
            raise Unfit(
                f"{self._what} has shape {list(array.shape)}, but its space says {list(self._shape)}; all "
                "must have the shape of observation_space, so resize or pad what changes. It is "
                f"{described(value)}"
            )
        if array.dtype != self._dtype and (wrong := misfit(array, self._dtype)):
            raise Unfit(f"{self._what} {wrong}. It is {described(value)}")
        return array if not self._bits else self._only_bits(array)

    def _only_bits(self, array: np.ndarray) -> np.ndarray:
        wrong = array[(array != 0) & (array != 1)]
        if wrong.size:
            raise Unfit(f"{self._what} holds {wrong[0]}, but its space is of bits, 0 or 1")
        return array

    def too_large(self, value: Any) -> Unfit:
        """The error of a finite number that becomes infinite in a row."""
        return Unfit(
            f"{self._what} holds a number that is too large for float32, which policies see; scale it. It is "
            f"{described(value)}"
        )

    def __call__(self, value: Any, row: np.ndarray) -> None:
        array = self.checked(value)
        try:
            row[...] = array
        except FloatingPointError:
            raise self.too_large(value) from None


class _Flat:
    """The same as a part of a row."""

    def __init__(self, what: str, space: Any, first: int) -> None:
        self._array = _Array(what, space)
        self._first, self.last = first, first + int(np.prod(space.shape))
        # gymnasium rounds to the part's own precision.
        self._half = space.dtype == np.float16

    def __call__(self, value: Any, row: np.ndarray) -> None:
        array = self._array.checked(value)
        try:
            row[self._first : self.last] = (array.astype(np.float16) if self._half else array).ravel()
        except FloatingPointError:
            raise self._array.too_large(value) from None


class _Discrete:
    """One whole number, one-hot."""

    def __init__(self, what: str, space: Discrete, first: int) -> None:
        self._what = what
        self._first, self.last = first, first + int(space.n)
        self._start, self._n = int(space.start), int(space.n)

    def __call__(self, value: Any, row: np.ndarray) -> None:
        integer = value if isinstance(value, int | np.integer) else self._integer(value)
        index = int(integer) - self._start
        if not 0 <= index < self._n:
            raise self._unfit(value)
        row[self._first : self.last] = 0
        row[self._first + index] = 1

    def _integer(self, value: Any) -> Any:
        array = numbers(value, self._what)
        if array.size != 1 or array.dtype.kind == "f":
            raise self._unfit(value)
        return array.reshape(-1)[0]

    def _unfit(self, value: Any) -> Unfit:
        return Unfit(
            f"{self._what} is {described(value)}, but its space has the whole numbers from {self._start} to "
            f"{self._start + self._n - 1}"
        )


class _MultiDiscrete:
    """Several whole numbers, one-hot one after another."""

    def __init__(self, what: str, space: MultiDiscrete, first: int) -> None:
        self._what = what
        self._shape = space.shape
        self._start, self._sizes = space.start.ravel().astype(np.int64), space.nvec.ravel().astype(np.int64)
        self._first, self.last = first, first + int(self._sizes.sum())
        self._offsets = first + np.cumsum(self._sizes) - self._sizes

    def __call__(self, value: Any, row: np.ndarray) -> None:
        array = numbers(value, self._what)
        if array.shape != self._shape or array.dtype.kind == "f":
            raise Unfit(
                f"{self._what} is {described(value)}, but its space says {list(self._shape)} whole numbers"
            )
        index = array.ravel().astype(np.int64) - self._start
        wrong = (index < 0) | (index >= self._sizes)
        if wrong.any():
            at = int(wrong.argmax())
            least = int(self._start[at])
            raise Unfit(
                f"{self._what} is {described(value)}, but number {at} of its space goes from {least} to "
                f"{least + int(self._sizes[at]) - 1}"
            )
        row[self._first : self.last] = 0
        row[self._offsets + index] = 1


class _Mapping:
    """A Dict: its parts by their keys."""

    def __init__(self, what: str, parts: list[tuple[Any, _Write]]) -> None:
        self._what, self._parts = what, parts

    def __call__(self, value: Any, row: np.ndarray) -> None:
        for key, write in self._parts:
            try:
                part = value[key]
            except Exception:  # a mapping of the user's own may raise anything
                raise Unfit(
                    f"{self._what} has no {key!r}, which its space has: it is {described(value)}"
                ) from None
            write(part, row)


class _Row:
    """A Tuple: its parts in their order."""

    def __init__(self, what: str, parts: list[tuple[Any, _Write]]) -> None:
        self._what, self._parts = what, parts

    def __call__(self, value: Any, row: np.ndarray) -> None:
        if not hasattr(value, "__len__") or len(value) != len(self._parts):
            raise Unfit(
                f"{self._what} is {described(value)}, but its space is a Tuple of {len(self._parts)} parts"
            )
        for (_, write), part in zip(self._parts, value, strict=True):
            write(part, row)
