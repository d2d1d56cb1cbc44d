"""Reading of an actor's answers, over HTTP and on Lambda: an acknowledgement, or an error.

Bodies are JSON, as bytes or parsed. A body that is not exactly as expected is not trusted.
"""

import json
import math
from typing import Any

from nitro_actor import PROTOCOL_VERSION
from nitro_actor.check_process import Record
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fields import MetadataError
from nitro_learner.backends.base import ALL_OF_ITS_TIME, Ack, Evidence, FatalError, RetryableError

_REASONS = {
    404: "unavailable",  # a proxy that starts and does not have the actors' route yet
    408: "timeout",
    424: "weights_missing",
    429: "throttled",
    500: "server_error",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
    507: "redis_full",
}
_WORK_CODES = frozenset({"environment", "weights_invalid", "internal"})
"""Failures of the actor's own work: the environment raised, the policy is not finite, an internal error."""

_CODES = frozenset(
    {"busy", "draining", "over", "starting", "redis_unreachable", "redis_full", "weights_missing"}
    | _WORK_CODES
)
"""The actor's own error codes, more exact than a status; other values of that field are ignored."""

_REFUSALS = frozenset({"unauthorized", "protocol", "bad_request", "too_large"})
"""The codes of answers that stay the same at every try. Such a status without a code does not come from an
actor, but from a proxy, or from whatever answers until a new Service's address is routed."""

_FATAL = frozenset({400, 401, 409, 413})
_ACCEPTED = _WORK_CODES | {"server_error", "weights_missing", "redis_full", "redis_unreachable"}
"""Reasons that an actor gives after it began to work, so that the invocation is billed."""

_BROKEN_OFF = b"EOF"
"""What Knative's proxies answer with 502 where the actor's process, or its pod, ended in the midst of a
request. They have other texts for an actor that cannot be reached (`dial tcp ...`), and for one that refuses
a request before it has read the body (`read tcp ...: connection reset by peer`)."""

_MOST_CHARACTERS = 2_400
"""Of an error in an answer: a little more than actors send."""

_SECONDS = ("weights", "rollout", "store", "total")
_CLOCK_SECONDS = 1.0
"""The actor's clock may differ from the learner's by this much over one request."""


def read_ack(body: object, wall: float) -> Ack:
    """Read the JSON of a 200 strictly: a peer that is no actor must not be taken for one.

    Raises RetryableError.
    """
    value = read_object(body)
    try:
        if value is None:
            raise ValueError("no JSON object")
        seconds = {name: _number(value["seconds"][name], wall + _CLOCK_SECONDS) for name in _SECONDS}
        cold = value["coldStart"]
        if type(cold) is not bool:
            raise ValueError(f"coldStart is {cold!r}")
        return Ack(
            slot=_whole(value["slot"]),
            attempt=_whole(value["attempt"]),
            cold_start=cold,
            seconds=seconds,
            wall_seconds=wall,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RetryableError("bad_answer", f"{error!r} in the answer {excerpt(body)}", wall) from error


def read_failure(
    status: int, body: object, wall: float, allowed: float = math.inf
) -> RetryableError | FatalError:
    """The error of any other status; ``wall`` is the time to bill where the actor began to work.

    ``allowed`` is the request's time-out, where an actor has surely had the request from its beginning.
    """
    value = read_object(body) or {}
    text = _text(value, "error")[:_MOST_CHARACTERS] or excerpt(body)
    code = str(value.get("code"))
    if status in _FATAL and code in _REFUSALS:
        if status == 401:
            return FatalError(f"the actor refuses the token (HTTP {status}): {text}")
        if status == 409:
            return FatalError(
                f"the actor refuses this learner's protocol {PROTOCOL_VERSION}: {text}; "
                "use an actor image and a learner of the same release"
            )
        return FatalError(f"the actor refuses the request (HTTP {status}): {text}")
    reason, ended = code, None
    if code not in _CODES:
        ended = _ended_by_proxy(status, body, wall >= ALL_OF_ITS_TIME * allowed)
        reason = ended or _REASONS.get(status, "bad_answer")
    if ended:
        text += f" after {wall:.1f} s"
    environment = reason == "environment"
    return RetryableError(
        reason,
        text if environment else f"HTTP {status}: {text}",
        wall if ended or reason in _ACCEPTED else 0.0,
        deterministic=reason in _WORK_CODES,
        evidence=Evidence(environment, trace=_text(value, "trace")),
    )


def _ended_by_proxy(status: int, body: object, all_its_time: bool) -> str | None:
    """Why a proxy, which answers without a code, ended a request that an actor worked on; None where the
    actor need not have had the request at all."""
    if status == 504 and all_its_time:  # before the learner's own time-out, which comes a moment later
        return "timeout"
    if status == 502 and isinstance(body, bytes) and body.strip() == _BROKEN_OFF:
        return "connection"
    return None


def read_spec(body: object, where: str) -> DescribedEnvironment:
    """Read an EnvironmentSpec of this learner's protocol. Raises RetryableError or FatalError."""
    spec = read_object(body)
    if spec is None or "protocol" not in spec:
        raise RetryableError("bad_answer", f"{where} answered {excerpt(body)}")
    if spec["protocol"] != PROTOCOL_VERSION:
        raise FatalError(
            f"the actors at {where} speak protocol {spec['protocol']}, this learner {PROTOCOL_VERSION}: "
            "use an actor image and a learner of the same release"
        )
    try:
        return DescribedEnvironment.from_json(spec)
    except MetadataError as error:
        raise RetryableError("bad_answer", f"{where} answered {excerpt(body)}: {error}") from error


def read_check(status: int, body: object, where: str) -> tuple[str, Record | None]:
    """Read the id of a check, and what it has told, if it has ended. Raises RetryableError or FatalError."""
    value = read_object(body) or {}
    if status != 200:
        raise read_failure(status, body, 0.0)
    try:
        record = value["record"]
        return str(value["id"]), None if record is None else Record(**record)
    except (KeyError, TypeError) as error:
        raise RetryableError("bad_answer", f"{where} answered {excerpt(body)}") from error


def read_object(body: object) -> dict[str, Any] | None:
    """Read a JSON object, from bytes or parsed; None where it is something else."""
    if isinstance(body, bytes):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return None
    return body if isinstance(body, dict) else None


def _text(value: dict[str, Any], field: str) -> str:
    """A text of an answer, without what no file or terminal can show."""
    return str(value.get(field, "")).encode("utf-8", "backslashreplace").decode()


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{excerpt(value)} is no whole number from 0 to 2**53")
    return value


def _number(value: object, most: float) -> float:
    # The actor works within the request's time. A larger number would be billed.
    if type(value) not in (int, float) or not 0 <= value <= most:  # type: ignore[operator]
        raise ValueError(f"{excerpt(value)} is no number of seconds between 0 and {most:.1f}")
    return float(value)  # type: ignore[arg-type]


def excerpt(body: object) -> str:
    """Its beginning, for a message."""
    return repr(body[:200].decode(errors="replace")) if isinstance(body, bytes) else repr(body)[:200]
