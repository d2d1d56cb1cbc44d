"""What an ended container said of the cause: the lines of its last output that name one.

The kubelet keeps what a container wrote into its termination message, else the last 2 KiB of its log. So the
first line may lack its beginning, and most lines may be what a program logs while all is well.
"""

import json
import re

from nitro_operator.kube.kinds import Object

LINES, CHARACTERS = 4, 600
TAIL_BYTES = range(2_000, 2_200)
"""A message of so many bytes is probably a log's end, cut in mid-line: the kubelet takes 2 KiB of a log."""
CAUSES = {"error", "critical", "fatal"}
"""Levels of our own logs that a cause has."""
_TRACEBACK = "Traceback (most recent call last)"
_REDIS = re.compile(r"\d+:[A-Z] .{15,30} (?P<level>[.*#-]) (?P<text>.*)")
"""A line of Redis' log: process and role, time, level, text."""


def words_of(ended: Object) -> str:
    """The words of a container's state `terminated`, for a message: quoted, or "none."."""
    lines = [line.strip() for line in (ended.get("message") or "").splitlines() if line.strip()]
    records = [_record(line) for line in lines]
    a_log = any(
        record is not None or line.startswith(_TRACEBACK) for line, record in zip(lines, records, strict=True)
    )
    causes = []
    for number, (line, record) in enumerate(zip(lines, records, strict=True)):
        if record is not None:
            causes += _causes(record)
        elif number > 0 or not _lacks_beginning(line, ended):
            causes.append(line)
        elif not any(record is not None for record in records[1:]):
            causes.append(f"...{line}")
    words = cut(" / ".join(causes[-LINES:] if a_log else causes), CHARACTERS)
    return f'"{words}".' if words else "none."


def redis_words(ended: Object) -> str | None:
    """Redis' last words: a line that it logged as a warning, or wrote before it had a log. None without."""
    for line in reversed((ended.get("message") or "").strip().splitlines()):
        logged = _REDIS.match(line.strip())
        if logged is None or logged["level"] == "#":
            return cut(line.strip().rstrip("."), CHARACTERS)
    return None


def cut(text: str, length: int) -> str:
    """The text without its middle if it is too long: the cause comes first and the remedy last."""
    half = (length - 3) // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def _record(line: str) -> Object | None:
    """A line of our own logs; None if it is something else."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.keys() & {"level", "event"} else None


def _causes(record: Object) -> list[str]:
    """The cause that a line of our own logs names; nothing if it is of another level."""
    if record.get("level") not in CAUSES:
        return []
    # An actor logs an event and the error; a learner a message, and the traceback of an exception.
    told = record.get("message") or record.get("error") or record.get("event") or ""
    trace = str(record.get("error") or "") if record.get("message") else ""
    lines = [line.strip() for text in (str(told), trace) for line in text.splitlines() if line.strip()]
    return [*lines[:1], *lines[-1:]] if len(lines) > 1 else lines


def _lacks_beginning(line: str, ended: Object) -> bool:
    """Whether the first line is the rest of a longer one."""
    cut_off = len((ended.get("message") or "").encode()) in TAIL_BYTES
    return cut_off or (line.endswith("}") and not line.startswith("{"))
