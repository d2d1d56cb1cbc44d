"""Answers to requests, over HTTP and on Lambda: a status and a JSON object."""

import threading
from typing import Any

from nitro_actor import traces, wire
from nitro_actor.actor import Actor, WeightsInvalidError, WeightsMissingError
from nitro_actor.engines.base import EnvironmentCallError, OverError
from nitro_actor.logs import log
from nitro_actor.parcel import ParcelTooLargeError
from nitro_actor.protocol.fields import ProtocolError
from nitro_actor.protocol.request import Request
from nitro_actor.rollout import PolicyError
from nitro_actor.store import Exchange, StoreError, StoreFullError

Answer = tuple[int, dict[str, Any]]
"""HTTP status and JSON object."""

_ERRORS: tuple[tuple[type[Exception], int, str], ...] = (
    (ProtocolError, 409, "protocol"),
    (wire.WireError, 400, "bad_request"),
    (WeightsMissingError, 424, "weights_missing"),
    (WeightsInvalidError, 500, "weights_invalid"),
    (OverError, 410, "over"),
    (PolicyError, 500, "weights_invalid"),
    (EnvironmentCallError, 500, "environment"),
    (ParcelTooLargeError, 413, "too_large"),
    (StoreFullError, 507, "redis_full"),
    (StoreError, 503, "redis_unreachable"),
    (Exception, 500, "internal"),
)


_TRACED = ("environment", "internal")
"""Codes of unexpected Python errors, such as those of the user's code."""


class RefusedError(Exception):
    """A request that is answered without work: HTTP status, code and sentence."""

    def __init__(self, status: int, code: str, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.code = code


def work(actor: Actor, request: Request, exchange: Exchange, over: threading.Event | None = None) -> Answer:
    """Run one request and answer with the actor's acknowledgement, or with the error.

    Args:
        over: set once nobody wants the fragment any more; the work then ends with its next step.
    """
    what: dict[str, Any] = {
        "run": request.run,
        "round": request.round,
        "slot": request.slot,
        "attempt": request.attempt,
    }
    try:
        answer = actor.run(request, exchange, over)
    except Exception as error:
        return logged("failed", error, level="error", kind=request.kind, **what)
    except BaseException as error:  # such as KeyboardInterrupt: only an environment raises it in an actor
        message = f"the environment raised {traces.words(error)}{traces.raised_at(error)}"
        wrapped = EnvironmentCallError(message)
        wrapped.__cause__ = error
        return logged("failed", wrapped, level="error", kind=request.kind, **what)
    log("done", kind=request.kind, **(what | answer))
    return 200, answer


def logged(event: str, error: Exception, *, level: str, **fields: Any) -> Answer:
    """Log an error whole, and return the answer to it, in which long texts are cut."""
    status, body = failure(error)
    log_uncut(error, level=level)
    log(event, level=level, status=status, **fields, **body)
    return status, body


def log_uncut(error: Exception, *, level: str) -> None:
    """Log the parts of an error that a sentence leaves out. The sentence comes afterwards, so that it is the
    last line of a process that ends."""
    if full := traces.uncut(error):
        log("whole error", level=level, error=full)


def failure(error: Exception) -> Answer:
    """The answer to an error: HTTP status, a code, a sentence and, if there is one, the user's
    traceback."""
    if isinstance(error, RefusedError):
        return error.status, {"code": error.code, "error": str(error)}
    status, code = next((status, code) for kind, status, code in _ERRORS if isinstance(error, kind))
    text = traces.words(error) if code == "internal" else traces.cut(traces.text(error), traces.MOST_SENTENCE)
    trace = traces.trace(error) if code in _TRACED else ""
    return status, {"code": code, "error": text} | ({"trace": trace} if trace else {})
