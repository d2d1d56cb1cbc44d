"""Standard output and error of a command: they take every text, and where they fail, a run goes on."""

from __future__ import annotations

import codecs
import contextlib
import io
import logging
import os
import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

logger = logging.getLogger(__name__)

_ALIKE = str.maketrans(
    {"→": ">", "±": "+-", "━": "#", "╌": ".", "…": "~", "·": "-"}
    | {bar: str(height) for height, bar in enumerate("▁▂▃▄▅▆▇█", 1)}
)
"""What stands for characters of ours that an encoding lacks. Any other one becomes a question mark."""
_NUMBERS = {"stdout": 1, "stderr": 2}


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Have both streams take every text within the block, and have standard error never fail.

    What is closed, as by `>&-`, is opened: else the next file would get its number, and with it whatever is
    printed.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    codecs.register_error(_alike.__name__, _alike)
    with contextlib.ExitStack() as stack:
        for name, number in _NUMBERS.items():
            stream = getattr(sys, name)
            if stream is None:
                stream = stack.enter_context(open(number, "w", encoding="utf-8", closefd=False))
                stack.enter_context(_in_place(name, stream))
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=_alike.__name__)
        stack.enter_context(unfailing("stderr"))
        yield


@contextlib.contextmanager
def unfailing(name: str) -> Iterator[None]:
    """Have a stream, "stdout" or "stderr", never fail within the block.

    What cannot be written, because nobody reads it or a disk is full, is dropped. Of standard output a
    warning says so, once.
    """
    stream, number = getattr(sys, name), _NUMBERS[name]
    if not isinstance(stream, io.TextIOWrapper) or _number(stream) != number:  # of a test, or of a notebook
        yield
        return
    with contextlib.suppress(OSError):
        stream.flush()
    kept = io.TextIOWrapper(
        io.BufferedWriter(_Unfailing(number, "w", closefd=False)),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    with _in_place(name, kept):
        try:
            yield
        finally:
            kept.flush()


def _number(stream: io.TextIOWrapper) -> int | None:
    with contextlib.suppress(OSError):  # one in memory has none
        return stream.fileno()
    return None


@contextlib.contextmanager
def _in_place(name: str, stream: io.TextIOWrapper) -> Iterator[None]:
    before = getattr(sys, name)
    setattr(sys, name, stream)
    try:
        yield
    finally:
        setattr(sys, name, before)


class _Unfailing(io.FileIO):
    """A file to write to whose writes never fail."""

    _failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (
                written := super().write(data)
            ) is None:  # somebody has set it not to block, and it is full
                select.select([], [self], [])
            return written
        except OSError as error:
            # Standard error's own failure has nowhere to be told.
            if not self._failed and self.fileno() == _NUMBERS["stdout"]:
                self._failed = True
                logger.warning(
                    "The output cannot be written (%s). This goes on without it.", error.strerror or error
                )
            return memoryview(data).nbytes


def _alike(error: UnicodeError) -> tuple[str, int]:
    """A character that the encoding has, for one that it lacks; see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    replacement = error.object[error.start].translate(_ALIKE)
    return (replacement if replacement.isascii() else "?"), error.start + 1
