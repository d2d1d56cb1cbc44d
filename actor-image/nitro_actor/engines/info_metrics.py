"""Numbers in the `info` that steps return (spec.environment.infoMetrics), summed until they are taken."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines import returned

_LARGEST = float(np.finfo(np.float32).max)


class InfoMetrics:
    """The sums of the named entries.

    A value that is None, NaN, infinite or beyond float32 does not count: a broken number that is only looked
    at is no reason to end a training.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._sums = np.zeros((len(self.names), 2))

    def add(self, info: Any) -> None:
        """Take in what one step, or one agent's step, has returned.

        Raises:
            returned.Unfit: it is no dictionary, or an entry is no number.
        """
        if not isinstance(info, Mapping):
            raise returned.Unfit(f"the info is {returned.described(info)}; gymnasium expects a dictionary")
        for row, name in enumerate(self.names):
            value = info.get(name)
            if value is None:
                continue
            number = _number(value, name)
            if abs(number) <= _LARGEST:  # false for NaN
                self._sums[row] += number, 1.0

    def take(self) -> NDArray[np.float64]:
        """The sum and the count of each entry since the last call, f64 [M, 2]."""
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return sums


def _number(value: Any, name: str) -> float:
    array = returned.numbers(value, f"the entry {name!r} of the info")
    if array.size != 1:
        raise returned.Unfit(
            f"the entry {name!r} of the info has the shape {list(array.shape)}; each of "
            "spec.environment.infoMetrics must be one number. Leave it out there, or give one number"
        )
    return float(array.reshape(-1)[0])
