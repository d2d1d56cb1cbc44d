"""The epochs of an update, which report its progress: what comes after it can be prepared in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

OnProgress = Callable[[float], None]
"""Is called with the share of the update that is done, from 0 (its first epoch begins) to 1 (its last has
ended)."""


def _ignore(_: float) -> None:
    pass


_on_progress: ContextVar[OnProgress] = ContextVar("on_progress", default=_ignore)


def epochs(number: int) -> Iterator[int]:
    """`range(number)`; reports the progress before each epoch, and after the last one."""
    report = _on_progress.get()
    for done in range(number):
        report(done / number)
        yield done
    report(1.0)


@contextmanager
def reporting_to(on_progress: OnProgress) -> Iterator[None]:
    """Within it, the epochs of this thread report to `on_progress`."""
    token = _on_progress.set(on_progress)
    try:
        yield
    finally:
        _on_progress.reset(token)


@contextmanager
def part(index: int, of: int) -> Iterator[None]:
    """Within it, the epochs are those of one of `of` learners, which learn one after the other."""
    report = _on_progress.get()
    with reporting_to(lambda share: report((index + share) / of)):
        yield
