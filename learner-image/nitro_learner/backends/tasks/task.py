"""A task of a pool: its request to a worker, and its progress."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from nitro_learner.backends.base import UNANSWERED, Ack

T = TypeVar("T")

_TRIES_AT_WORK = 2
"""How often the work of a task itself may fail; the second try may run on another machine."""


class ResultRefused(Exception):  # noqa: N818
    """A message is no result of its group, or is damaged.

    ``reason`` is one of a bounded set (it is a metric's label). ``task`` and ``attempt`` are known when the
    message belongs to one of the group's tasks.
    """

    def __init__(
        self, reason: str, message: str, *, task: int | None = None, attempt: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.task = task
        self.attempt = attempt


class Workers(Protocol):
    """The capacity of where tasks are worked on. An ActorBackend has it."""

    @property
    def limit(self) -> int:
        """The largest number of requests in flight; more wait in ``invoke``."""

    @property
    def at_once(self) -> int:
        """The number of requests that workers can work on at once, now; 0 if there are no workers."""

    @property
    def grace_seconds(self) -> float:
        """How long after its time-out a request may still be answered."""


@dataclass(frozen=True)
class Work(Generic[T]):
    """How the tasks of one group are requested, and how their results are read.

    Attributes:
        key: the list in the cache that the results come to.
        ask: has a worker try a task, by the task's index and the number of its attempt. The worker stores the
            result in the cache. Raises RetryableError or FatalError.
        decode: from a message of the list to the task's index and its result, which is never None. Raises
            ResultRefused.
        recover: repairs what made a task fail for a reason, as far as that is possible here. Raises
            CacheError.
    """

    key: str
    ask: Callable[[int, int], Awaitable[Ack]]
    decode: Callable[[bytes], tuple[int, T]]
    recover: Callable[[str], Awaitable[None]]


class Task(Generic[T]):
    """One task's progress. ``result`` is the first valid one that was stored, by any attempt.

    ``left_working``: its last request was cut, and whoever got it may work on.
    ``hopeless``: the work itself failed, and would fail again.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.attempts = 0
        self.result: T | None = None
        self.refused: set[int] = set()
        self.trouble = UNANSWERED
        self.failed_at_work = 0
        self.left_working = False
        self.request: asyncio.Task[None] | None = None
        self.news = asyncio.Event()

    @property
    def hopeless(self) -> bool:
        return self.failed_at_work >= _TRIES_AT_WORK
