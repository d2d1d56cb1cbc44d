"""Structured logs: one JSON object per line, into the run folder's log.jsonl and, in a cluster, to stderr.

    logger.info("round done", extra={"fields": {"round": 3, "reward": 120.5}})

becomes {"time": "...", "level": "info", "logger": "nitro_learner.training.trainer",
"message": "round done", "round": 3, "reward": 120.5}.
"""

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nitro_learner.backends.output import LogFile

# The packages whose records are ours; libraries log only warnings.
_OURS = ("nitro_learner", "nitro_rllib", "nitro_experiments", "nitro_actor", "nitro_api")


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time (RFC 3339, UTC), level, logger, message, the record's `fields`, error
    when there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **finite(getattr(record, "fields", {})),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def finite(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields with NaN and infinities as None, which JSON cannot express."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }


@contextmanager
def to_file(path: Path) -> Iterator[None]:
    """Append all records of our packages from level INFO, and others' warnings, to `path` while the context
    is open.
    """
    handler = LogFile(path)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def configure(*, structured: bool) -> None:
    """Set levels and what goes to stderr: every record as JSON (`structured`, for a pod), else warnings as
    plain lines.
    """
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    handler = logging.StreamHandler(sys.stderr)
    if structured:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setLevel(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    root.addHandler(handler)
