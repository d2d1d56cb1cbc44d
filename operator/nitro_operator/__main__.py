"""`python -m nitro_operator`: run the operator until it is told to stop."""

from __future__ import annotations

import logging
import sys

import kopf

from nitro_operator import main  # noqa: F401  registers the handlers
from nitro_operator.config import Config


def run() -> None:
    try:
        config = Config.from_environment()
    except ValueError as error:
        sys.exit(f"nitro-operator: {error}")
    _set_up_logging(config.log_level)
    kopf.run(
        standalone=True,
        clusterwide=not config.watch_namespaces,
        namespaces=config.watch_namespaces,
        memo=kopf.Memo(),
    )


def _set_up_logging(level: str) -> None:
    """Log JSON lines. kopf would log every event and aiohttp every probe: only their warnings are kept."""
    debug = level == "DEBUG"
    kopf.configure(debug=debug, quiet=level in ("WARNING", "ERROR"), log_format=kopf.LogFormat.JSON)
    if not debug:
        for name in ("kopf.objects", "kopf.activities", "aiohttp.access"):
            logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    run()
