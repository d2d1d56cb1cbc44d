"""The operator's HTTP servers: metrics, and the kubelet's probes."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from nitro_api.doors import BACKLOG, Rate, doors

PLACES = 64
"""Connections at once, of each server. Scrapers and the kubelet need a few."""
RATE = Rate(burst=100, per_second=10)
"""How fast one address may open them. The kubelet opens one for each probe."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


class HttpServer:
    """Server of a few paths on all interfaces, of IPv4 and of IPv6."""

    def __init__(self, port: int, paths: Mapping[str, Handler]) -> None:
        self._port = port
        self._paths = paths
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken."""
        app = web.Application()
        app.add_routes([web.get(path, handler) for path, handler in self._paths.items()])
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None)
        await self._runner.setup()
        for door in doors(None, self._port, places=PLACES, rate=RATE):
            await web.SockSite(self._runner, door, backlog=BACKLOG).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
