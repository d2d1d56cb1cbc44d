"""The epochs of an update, which say how much of it is done: what comes after it can be prepared in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Heard = Callable[[float], None]
"""Is told the share of the update that is done, from 0 (its first epoch begins) to 1 (its last has ended)."""

_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)


def epochs(number: int) -> Iterator[int]:
    """`range(number)`; says before each epoch, and after the last one, how much of the update is done."""
    heard = _heard.get() or _nobody
    for done in range(number):
        heard(done / number)
        yield done
    heard(1.0)


@contextmanager
def hearing(heard: Heard) -> Iterator[None]:
    """Within it, `heard` is told of the epochs of this thread."""
    token = _heard.set(heard)
    try:
        yield
    finally:
        _heard.reset(token)


@contextmanager
def part(index: int, of: int) -> Iterator[None]:
    """Within it, the epochs are those of one of `of` learners, which learn one after the other."""
    heard = _heard.get() or _nobody
    with hearing(lambda share: heard((index + share) / of)):
        yield


def _nobody(_: float) -> None:
    pass
