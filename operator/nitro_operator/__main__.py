"""`python -m nitro_operator`: run the operator until it is told to stop."""

import json
import logging
import sys
from datetime import UTC, datetime

import kopf

from nitro_operator import main  # noqa: F401  registers the handlers
from nitro_operator.config import Config


def run() -> None:
    try:
        config = Config.from_environment()
    except ValueError as error:
        sys.exit(f"nitro-operator: {error}")
    _set_up_logging(config.log_level)
    kopf.run(standalone=True, clusterwide=True, memo=kopf.Memo(config=config))


def _set_up_logging(level: str) -> None:
    """Log JSON lines, with the time as learner and actors write it. kopf would log every event and aiohttp
    every probe: only their warnings are kept."""
    debug = level == "DEBUG"
    kopf.configure(debug=debug, quiet=level in ("WARNING", "ERROR"), log_format=kopf.LogFormat.JSON)
    for handler in logging.getLogger().handlers:
        if handler.formatter is not None:
            handler.setFormatter(_Timed(handler.formatter))
    if not debug:
        for name in ("kopf.objects", "kopf.activities", "aiohttp.access"):
            logging.getLogger(name).setLevel(logging.WARNING)


class _Timed(logging.Formatter):
    """Another formatter's JSON objects, with `time` (RFC 3339, UTC) in place of kopf's `timestamp`."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        entry = json.loads(self._inner.format(record))
        entry.pop("timestamp", None)
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": moment.replace("+00:00", "Z"), **entry})


if __name__ == "__main__":
    run()
