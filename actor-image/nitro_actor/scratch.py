"""Arrays that calls reuse, each thread its own."""

import threading
from typing import Any


class Scratch(threading.local):
    """What a call leaves for the next call of the same thread: arrays, to be written over.

    A policy may then be asked by several threads at once. Copies of one, pickled or not, begin with nothing:
    copied views would no longer be views of the copied arrays.

        scratch = self._scratch
        if scratch.key != rows:
            scratch.key, scratch.arrays = rows, make(rows)

    Attributes:
        key: what the arrays were made for.
    """

    key: Any = None
    arrays: Any = None

    def __reduce__(self) -> tuple[type["Scratch"], tuple[()]]:
        return Scratch, ()
