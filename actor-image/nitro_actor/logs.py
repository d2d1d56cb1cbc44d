"""Structured logs: one event, one line of JSON on stderr."""

import json
import sys
import time
from typing import Any


def log(event: str, *, level: str = "info", **fields: Any) -> None:
    """Write one event as one line of JSON on stderr."""
    line = json.dumps({"time": time.time(), "level": level, "event": event, **fields}, default=str)
    print(line, file=sys.stderr, flush=True)
