"""kopf's settings: it watches, nothing else."""

from __future__ import annotations

import kopf

from nitro_operator.kinds import WATCHED_CHILDREN, Kind
from nitro_operator.names import JOB_LABEL

ONE_HOUR_OF_BACKOFFS = (1, 1, 2, 3, 5, 8, 13, 21, 34) + (60,) * 60
"""kopf ends the process when a watch fails for good: an API server that restarts must not count as that."""


def configure(settings: kopf.OperatorSettings) -> None:
    """Set what differs from kopf's defaults."""
    for kind in WATCHED_CHILDREN:
        # The server filters: other people's pods never reach this process.
        settings.watching.label_selectors[_selects(kind)] = JOB_LABEL
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 600  # a watch is renewed, so that a half-dead connection does not last
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = ONE_HOUR_OF_BACKOFFS
    settings.posting.enabled = False  # events.py posts them
    settings.process.ultimate_exiting_timeout = 20


def _selects(kind: Kind) -> tuple[str, str] | tuple[str, str, str]:
    return (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
