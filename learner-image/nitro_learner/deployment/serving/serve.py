"""The server's life: from its first request to SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from aiohttp import web

from nitro_api.doors import BACKLOG, Rate, doors
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.deployment.serving.app import BODY_SECONDS, make_app

_GRACE_SECONDS = BODY_SECONDS + 5
"""Time that running requests have when the server is to end."""
_KEEP_ALIVE_SECONDS = 75.0
PLACES = 256
"""Connections at once."""
RATE = Rate(burst=500, per_second=200, shuts_out=False)
"""How fast one address may open them. It may be that of a load balancer, so it is never shut out."""


async def serve(policy: TrainedPolicy, host: str, port: int, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        port: 0 takes a free one.
        listening: is told the address once requests are accepted.

    Raises:
        OSError: the address cannot be listened on.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(
        make_app(policy),
        access_log=None,
        auto_decompress=False,  # a body that cannot be decompressed would be a 500 with tracebacks
        keepalive_timeout=_KEEP_ALIVE_SECONDS,
        shutdown_timeout=_GRACE_SECONDS,
    )
    await runner.setup()
    try:
        for door in doors(host, port, places=PLACES, rate=RATE):
            await web.SockSite(runner, door, backlog=BACKLOG).start()
        address, bound, *_ = runner.addresses[0]
        listening(f"http://{f'[{address}]' if ':' in address else address}:{bound}")
        await stop.wait()
    finally:
        await runner.cleanup()
