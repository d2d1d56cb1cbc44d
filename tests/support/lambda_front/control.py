"""The control plane beside the Invoke API: a moto server that keeps the functions an operator makes."""

import aiohttp
from aiohttp import web

from lambda_front.knobs import Function

_SECONDS = 30.0
_HOP = {"host", "content-length", "connection", "transfer-encoding", "content-encoding"}


class ControlPlane:
    """Passes requests on, and looks functions up."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def forward(self, request: web.Request) -> web.Response:
        """What is no invocation is moto's."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        async with self._open().request(
            request.method,
            f"{self._url}{request.raw_path}",
            data=await request.read(),
            headers=headers,
            allow_redirects=False,
        ) as response:
            kept = {name: value for name, value in response.headers.items() if name.lower() not in _HOP}
            return web.Response(body=await response.read(), status=response.status, headers=kept)

    async def function(self, request: web.Request) -> Function | None:
        """The function of an Invoke as it was configured, None where there is none."""
        url = f"{self._url}/2015-03-31/functions/{request.match_info['name']}/configuration"
        # By the signature moto knows the region.
        headers = {"Authorization": request.headers.get("Authorization", "")}
        async with self._open().get(url, params=request.query, headers=headers) as response:
            if response.status != 200:
                return None
            configuration = await response.json(content_type=None)
        image = configuration.get("ImageConfigResponse", {}).get("ImageConfig", {})
        command = (*image.get("EntryPoint", ()), *image.get("Command", ()))
        default = Function()
        return Function(
            environment=configuration.get("Environment", {}).get("Variables", {}),
            memory_mib=configuration["MemorySize"],
            timeout_seconds=configuration["Timeout"],
            command=command or default.command,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=_SECONDS), auto_decompress=True
            )
        return self._session
