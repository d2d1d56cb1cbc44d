"""The interface of actor backends: local processes, Knative or Lambda; and why their requests fail."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import Request
from nitro_learner.backends.cache.base import Cache


class NotSet(Exception):  # noqa: N818
    """The process lacks a variable of its environment; the message says which, and what to do."""


def variable(name: str) -> str:
    """A variable that the operator sets for a learner's pod. Raises NotSet where it is missing or empty."""
    if value := os.environ.get(name):
        return value
    raise NotSet(f"the variable {name} is not set; `nitro learn` is for the pod that the operator makes")


ROLLOUT = 0
"""Priority of requests a round waits for."""
EVALUATION = 1
"""Priority of evaluation requests: they take only capacity that no rollout waits for."""

ALL_OF_ITS_TIME = 0.9
"""Share of a request's time-out. A request that is cancelled after this time counts as too long: its round's
deadline is often as long as the time-out, and cancels it just before."""

_PASSING = frozenset(
    {
        "busy",
        "connection",
        "credentials",
        "draining",
        "not_ready",
        "service_error",
        "starting",
        "unavailable",
    }
)
"""Reasons that pass by themselves: the network or a proxy is away for a moment, or no actor is free yet."""


LEFT_WORKING = frozenset({"busy", "timeout", "unavailable"})
"""Reasons after which an actor may still work: a proxy has cut its request at the time-out, or it says itself
that it works."""


@dataclass(frozen=True)
class Evidence:
    """Details of a failure beside its message.

    Attributes:
        environment: whether the user's environment is at fault: it raised, ended its process or hangs.
        trace: its traceback or stacks, for the log.
        output: the last lines that the actor printed.
        missing: whether the environment needs a package that is not installed.
    """

    environment: bool = False
    trace: str = ""
    output: tuple[str, ...] = ()
    missing: bool = False


NO_EVIDENCE = Evidence()


class BackendError(Exception):
    """Actors cannot do what was asked. The message says what is wrong, where, and what to do."""

    def __init__(self, message: str, evidence: Evidence = NO_EVIDENCE) -> None:
        super().__init__(message)
        self.evidence = evidence


class RetryableError(BackendError):
    """One invocation failed in a way that another try may not; the same slot and seed may be sent again.

    ``reason`` is one of a bounded set (it is a metric's label); ``billed_seconds`` is how long an actor may
    have worked on the request, 0 where none accepted it; ``estimated`` says that this time is an estimate;
    ``throttled`` says that the request was turned away because too many run;
    ``deterministic`` that the actor failed at the work itself, as the next one with the same seed will;
    ``let_go`` gives back the room of a request whose actor may work on. Whoever catches the error calls it
    once that is over.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        billed_seconds: float = 0.0,
        *,
        estimated: bool = True,
        throttled: bool = False,
        deterministic: bool = False,
        evidence: Evidence = NO_EVIDENCE,
    ) -> None:
        super().__init__(f"{reason}: {message}", evidence)
        self.let_go: Callable[[], None] = lambda: None
        self.reason = reason
        self.message = message
        self.billed_seconds = billed_seconds
        self.estimated = estimated
        self.throttled = throttled
        self.deterministic = deterministic

    @property
    def is_try(self) -> bool:
        """Whether it counts as a try of the slot: not where no actor worked and the reason passes."""
        return not self.throttled and (self.billed_seconds > 0 or self.reason not in _PASSING)


class FatalError(BackendError):
    """No try can succeed: wrong token, other protocol, a request actors refuse, actors that cannot start."""


class AbandonedError(asyncio.CancelledError):
    """The wait for an answer was cancelled; the actor may go on to work, which is billed.

    ``seconds`` is how long the wait was; ``trouble`` says that the actor had all the time of a request, or
    what the backend found out about it then.
    """

    def __init__(self, seconds: float, trouble: RetryableError | None) -> None:
        super().__init__()
        self.seconds = seconds
        self.trouble = trouble


@contextlib.contextmanager
def answering(timeout: float) -> Iterator[None]:
    """Raise the error above when the wait for an answer is cancelled, with the time that may be billed.

    ``timeout`` is the request's, in seconds.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        yield
    except asyncio.CancelledError as error:
        seconds = clock() - began
        late = seconds >= ALL_OF_ITS_TIME * timeout
        trouble = RetryableError("timeout", f"no answer in {timeout:g} s") if late else None
        raise AbandonedError(seconds, trouble) from error


@dataclass(frozen=True)
class Ack:
    """An actor's confirmation that it has stored a fragment.

    ``seconds`` has the actor's own times: weights, rollout, store and total; ``wall_seconds`` is the
    request's time as the learner saw it, without waiting for capacity. ``reported_seconds`` is what the
    provider bills by its own report, None without one; ``estimated`` means that its report was lost.
    ``found_ready`` says that an actor was ready and free when the request was made.
    """

    slot: int
    attempt: int
    cold_start: bool
    seconds: Mapping[str, float]
    wall_seconds: float
    reported_seconds: float | None = None
    estimated: bool = False
    found_ready: bool = True

    @property
    def billed_seconds(self) -> float:
        """Billed seconds of the invocation."""
        return self.seconds["total"] if self.reported_seconds is None else self.reported_seconds


class ActorBackend(Protocol):
    """Actors that sample. One backend serves one run, on one event loop::

    backend = LocalBackend(spec, run)
    try:
        environment = await backend.start()     # its spaces, whether episodes can be resumed
        backend.set_limit(16)                   # at most 16 requests in flight (Knative: what was granted)
        cache = backend.open_cache(run)         # where weights go and fragments come
        ack = await backend.invoke(Request(...), timeout=60.0)
        # the fragment now lies in the cache
    finally:
        await backend.close()
    """

    def open_cache(self, run: str) -> Cache:
        """The cache of the run's weights and fragments, after ``start``; the caller closes it."""

    @property
    def limit(self) -> int:
        """Requests in flight at most; more wait in ``invoke``, which makes waves."""

    @property
    def at_once(self) -> int:
        """Requests that actors work on at once, now: `limit`, or 0 while all actors sleep. Deadlines go by
        it."""
        return self.limit

    @property
    def grace_seconds(self) -> float:
        """How long after its time-out a request may still be answered: it counts from when work on it begins,
        and a deadline that does not wait for that pays for the work and throws it away."""
        return 0.0

    @property
    def in_use(self) -> int:
        """How many actors the requests in flight need. Where actors have an order, as pods with addresses,
        these are the first so many of them."""

    def set_limit(self, limit: int) -> None:
        """Change the limit at once (>= 1); requests in flight are not cancelled when it shrinks."""

    async def start(self) -> DescribedEnvironment:
        """Make actors ready and return the environment that one of them reports.

        Raises BackendError, with the actor's own last words where it cannot start.
        """

    async def invoke(self, request: Request, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        """Wait for free capacity (lowest priority number first), then run one request on an actor.

        ``timeout`` (seconds) counts from when capacity was there. Raises RetryableError or FatalError.
        """

    def take_bills(self) -> list[float]:
        """Billed seconds of invocations that no slot asked for (at the start), since the last call."""
        return []

    async def close(self) -> None:
        """Release everything that was started, in whatever state it is. May be called twice."""


@dataclass(frozen=True)
class Trouble:
    """The last error of one slot."""

    text: str
    evidence: Evidence = NO_EVIDENCE

    @staticmethod
    def of(error: RetryableError) -> "Trouble":
        """Make the trouble of a backend's error. An error of the environment itself needs no prefix."""
        return Trouble(error.message if error.evidence.environment else str(error), error.evidence)

    def __str__(self) -> str:
        return self.text


UNANSWERED = Trouble("no answer yet")
"""The trouble of a slot whose request still waits, often behind others that fail."""


def causes(troubles: Sequence[Trouble]) -> str:
    """The most frequent troubles, and the last output of an actor that met the first of them."""
    met = [trouble for trouble in troubles if trouble is not UNANSWERED] or [UNANSWERED]
    counted = Counter(trouble.text for trouble in met).most_common(3)
    told = counted[0][0] if len(counted) == 1 else "; ".join(f"{count} x {text}" for text, count in counted)
    output = next((t.evidence.output for t in met if t.text == counted[0][0] and t.evidence.output), ())
    return told + shown(output)


def shown(output: Sequence[str]) -> str:
    """An actor's last output, to be put behind a message; empty where it printed nothing."""
    return "".join(f"\n  {line}" for line in ("the actor's last output:", *output)) if output else ""


def evidence(troubles: Sequence[Trouble]) -> Evidence:
    """The evidence of all of them: whether the environment is at fault for each, and one traceback."""
    met = [trouble.evidence for trouble in troubles if trouble is not UNANSWERED]
    at_fault = bool(met) and all(trouble.environment for trouble in met)
    return Evidence(at_fault, trace=next((trouble.trace for trouble in met if trouble.trace), ""))
