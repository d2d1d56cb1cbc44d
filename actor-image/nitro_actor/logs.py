"""Structured logs: one event, one line of JSON on stderr."""

import json
import sys
import time
from typing import Any


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one event as one line of JSON on stderr."""
    line = json.dumps({"time": time.time(), "level": level, "event": event, **fields}, default=str)
    # `print` writes the line's end by itself, and another process of the pod may write in between.
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
