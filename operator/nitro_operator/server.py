"""/metrics, served from the event loop: what is read is never half written, and a loop that stands still
shows as a failed scrape."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import REGISTRY, disable_created_metrics
from prometheus_client.exposition import choose_encoder


class MetricsServer:
    """Serves Prometheus' text format, or OpenMetrics where it is asked for, on all interfaces."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Raises OSError if the port is taken."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # nobody asks when a counter began
        app = web.Application()
        app.router.add_get("/metrics", _metrics)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


async def _metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})
