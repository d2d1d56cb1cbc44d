"""Structured logs: one event, one line of JSON on stderr, with the time as learner and operator write it."""

import contextlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TERMINATION_LOG = Path("/dev/termination-log")
"""Kubernetes' own place for why a container ended. Without it a status has the end of the log."""
_HALF_BYTES = 2_000


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one event as one line of JSON on stderr."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = json.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
    # `print` writes the line's end by itself, and another process of the pod may write in between.
    with contextlib.suppress(OSError):  # where nobody takes the log, the work goes on
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def write_termination_message(cause: str, place: Path | None = None) -> None:
    """Leave why this container ends where Kubernetes looks for it, if it runs on Kubernetes."""
    place = place or TERMINATION_LOG
    encoded = cause.encode(errors="replace")
    if len(encoded) > 2 * _HALF_BYTES:  # of more than 4 KiB the kubelet would leave out the beginning
        encoded = b"%b...%b" % (encoded[:_HALF_BYTES], encoded[-_HALF_BYTES:])
    if os.access(place, os.W_OK):
        with contextlib.suppress(OSError):  # of a node whose disk is full; the log has it, too
            place.write_bytes(encoded.decode(errors="ignore").encode())
