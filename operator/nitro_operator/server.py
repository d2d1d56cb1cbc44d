"""/metrics, served from the event loop: what is read is never half written."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


class MetricsServer:
    """Serves Prometheus' text format on all interfaces."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Raises OSError if the port is taken."""
        app = web.Application()
        app.router.add_get("/metrics", _metrics)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
