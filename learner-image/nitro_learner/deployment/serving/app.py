"""A trained policy as a web application.

    POST /v1/act        {"observation": [...]} -> {"action": ...}
    GET  /v1/policy     round, agents and spaces
    GET  /              what this is, and what may be asked
    GET  /healthz       200 while the process serves
    GET  /metrics       for Prometheus
    GET  /openapi.json  all of this, with the shapes of this policy

`observation`, `available`, `deterministic` and `state` are the arguments of `TrainedPolicy.act`, as JSON.
Where the policy has a memory, the answer has the `state` after the observation, for the request with the
episode's next one. A request without a state begins an episode. The server itself remembers nothing. What is
wrong with a request is answered as {"error": TEXT} with a status of 400, 408, 413 or 415. A status of 503
says that the server has too much to do now: the same request may be served later. A client that does not read
an answer in time is disconnected.
"""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import numpy as np
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import exposition

from nitro_api.doors import BACKLOG, Rate, doors
from nitro_learner.api.players import LARGEST
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.deployment.serving.description import Route, described
from nitro_learner.deployment.serving.metrics import ServingMetrics
from nitro_learner.deployment.serving.requests import Act, Acted, AgentSpaces, Served, Welcome, parsed

MOST_BYTES = 2 * 2**20
"""Size of a request's body at most: twenty stacks of four Atari frames, or 4,096 observations of Hopper."""
MOST_ROWS = 4096
"""Observations of a batch at most, of all agents together: a few bytes each, for which a network takes kB."""
MOST_REMEMBERED = MOST_BYTES // 8
"""Numbers of a batch's memories at most: with 8 characters each, they fill the next request's body."""
BODY_SECONDS = 10.0
"""Time that a client has to send a body."""
WAIT_SECONDS = 10.0
"""Time that a request waits for the policy, which answers one at a time."""
ANSWER_SECONDS = 30.0
"""Time that a client has to take an answer."""
_MOST_HELD = 16 * MOST_BYTES
"""Size of all bodies at most, of those that arrive and of those that wait; and of all large answers."""
_LARGE = 2**16
"""Size of a large answer. Smaller ones, such as errors, are never refused."""
_SHOWN = 200
"""Characters of what came that an error shows."""
_PLAIN = "text/plain"
_REFUSALS = {
    400: "the request is wrong",
    408: "the body took too long",
    413: "the body is too large",
    415: "the body is compressed",
    503: "too much to do now; ask again later",
}
_GRACE_SECONDS = BODY_SECONDS + 5
"""Time that running requests have when the server is to end."""
_KEEP_ALIVE_SECONDS = 75.0
PLACES = 256
"""Connections at once."""
RATE = Rate(burst=500, per_second=200, shuts_out=False)
"""How fast one address may open them. It may be that of a load balancer, so it is never shut out."""


def make_app(policy: TrainedPolicy) -> web.Application:
    """The application that serves a policy."""
    service = _Service(policy)
    app = web.Application(middlewares=[service.send, _errors_as_json])
    app.add_routes([web.route(route.method, route.path, route.handler) for route in service.routes])
    return app


class _Service:
    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy
        # One thread, because each more would take memory for a batch of its own. The event loop answers
        # /healthz meanwhile.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy")
        self._turn = asyncio.Lock()
        self._held = self._leaving = 0
        remembered = max(1, sum(policy.memory.values()))
        self._most_rows = max(1, min(MOST_ROWS // len(policy.agents), MOST_REMEMBERED // remembered))
        self._metrics = ServingMetrics(policy.round)
        self.routes = (
            Route("GET", "/", self.welcome, Welcome),
            Route("POST", "/v1/act", self.act, Acted, Act, _REFUSALS),
            Route("GET", "/v1/policy", self.policy, Served),
            Route("GET", "/healthz", self.health, _PLAIN),
            Route("GET", "/metrics", self.metrics, _PLAIN),
            Route("GET", "/openapi.json", self.openapi, "application/json"),
        )
        self._version = metadata.version("nitro-learner")
        self._paths = {route.path for route in self.routes}
        self._described = described(self.routes, policy, self._version)

    @web.middleware
    async def send(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Send the handler's answer in time. aiohttp itself would wait for ever for a client that reads
        nothing."""
        begin = time.monotonic()
        response = await handler(request)
        size = response.content_length or 0
        if size > _LARGE and self._leaving + size > _MOST_HELD:
            response, size = _error(503, "other answers fill the memory; try again later"), 0
        self._leaving += size
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if request.transport:
                    # An answer is sent when the kernel has all of it, not when 64 kB are left.
                    request.transport.set_write_buffer_limits(0)
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport:
                request.transport.abort()
        except ConnectionError:  # the client has left; aiohttp, which finds the same, ends the connection
            pass
        finally:
            self._leaving -= size
            path = request.path if request.path in self._paths else "other"
            self._metrics.answered(path, response.status, time.monotonic() - begin)
        return response

    async def welcome(self, _request: web.Request) -> web.Response:
        """What this is, and what may be asked."""
        told = Welcome(
            service=f"a policy for {self._policy.described.id}, trained by Nitro",
            version=self._version,
            environment=self._policy.described.id,
            round=self._policy.round,
            requests={f"{route.method} {route.path}": route.summary for route in self.routes},
        )
        return web.Response(text=told.model_dump_json(indent=2) + "\n", content_type="application/json")

    async def metrics(self, request: web.Request) -> web.Response:
        """Requests, their time, and the process, for Prometheus."""
        encode, kind = exposition.choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._metrics.registry), headers={"Content-Type": kind})

    async def openapi(self, _request: web.Request) -> web.Response:
        """This service as an OpenAPI document, with the shapes of this policy."""
        return web.json_response(self._described)

    async def act(self, request: web.Request) -> web.Response:
        """The action for an observation, or the actions for a batch."""
        if (encoding := request.headers.get("Content-Encoding") or "identity").lower() != "identity":
            return _error(415, f"the body has the Content-Encoding {encoding[:_SHOWN]}; send it without")
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    await self._read(request, body)
            except TimeoutError:
                return _error(408, f"the body took more than {BODY_SECONDS:g} s")
            except ConnectionResetError:
                return _error(400, "the client has left")  # for nobody, in place of a traceback in the log
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._turn.acquire()
            except TimeoutError:
                return _error(503, f"other requests took more than {WAIT_SECONDS:g} s; try again later")
            try:
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(self._thread, self._answer, body)
            except (TypeError, ValueError) as error:
                return _error(400, str(error))
            finally:
                self._turn.release()
        finally:
            self._held -= len(body)
        return web.Response(body=answer, content_type="application/json")

    async def _read(self, request: web.Request, body: bytearray) -> None:
        """Read a body. What has arrived counts, so that clients which send nothing hold up no others."""
        async for chunk in request.content.iter_any():
            body += chunk
            self._held += len(chunk)
            if len(body) > MOST_BYTES:
                raise web.HTTPRequestEntityTooLarge(MOST_BYTES, len(body))
            if self._held > _MOST_HELD:
                raise web.HTTPServiceUnavailable(text="other requests fill the memory; try again later")

    def _answer(self, body: bytearray) -> bytes:
        asked = parsed(body)
        observation, state = self._observation(asked.observation), asked.state
        rows = self._rows_of(observation)
        arguments: dict[str, Any] = {"deterministic": asked.deterministic, "available": asked.available}
        answer: dict[str, Any]
        if state is None and not any(self._policy.memory.values()):
            answer = {"action": _listed(self._policy.act(observation, **arguments))}
        else:
            before = self._policy.initial_state(rows) if state is None else state
            action, after = self._policy.act(observation, state=before, **arguments)
            answer = {"action": _listed(action), "state": _listed(after)}
        self._metrics.acted(rows or 1)
        return json.dumps(answer).encode()

    def _rows_of(self, observation: Any) -> int | None:
        """The size of the batch; None for observations without a batch axis.

        Raises:
            ValueError: the batch is too large.
        """
        by_agent = observation if isinstance(observation, Mapping) else {self._policy.agents[0]: observation}
        sizes = [
            len(rows)
            for agent, rows in by_agent.items()
            if rows.ndim > len(self._policy.of(agent).observation["shape"])
        ]
        if (rows := max(sizes, default=0)) > self._most_rows:
            raise ValueError(
                f"observation: a batch of {rows} rows, but this policy takes {self._most_rows} at most; "
                "divide it among several requests"
            )
        return rows if sizes else None

    async def policy(self, _request: web.Request) -> web.Response:
        """The round, the environment, and each agent's spaces."""
        policy = self._policy
        agents = {
            agent: AgentSpaces(
                observation=dict(spaces.observation),
                action=dict(spaces.action),
                memory=policy.memory[agent] or None,
            )
            for agent, spaces in policy.spaces.items()
        }
        told = Served(round=policy.round, environment=policy.described.id, agents=agents)
        return web.json_response(told.model_dump(exclude_none=True))

    async def health(self, _request: web.Request) -> web.Response:
        """`ok`, while the process serves."""
        return web.Response(text="ok")

    def _observation(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {agent: self._rows(agent, rows) for agent, rows in value.items()}
        return self._rows(self._policy.agents[0], value)

    def _rows(self, agent: str, value: Any) -> Any:
        """An agent's observations. JSON has no bytes, so whole numbers stand for those of an image."""
        try:
            rows = np.asarray(value)
        except (TypeError, ValueError):
            raise ValueError("observation: must be numbers, in rows of equal length") from None
        if rows.dtype.kind not in "biuf":
            raise ValueError(f"observation: must be numbers, not {rows.dtype}")
        if self._policy.of(agent).observation["dtype"] != "uint8":
            if not (np.abs(rows) <= LARGEST).all():
                raise ValueError(f"observation: must be at most {LARGEST:.3g}, what float32 holds")
            return rows
        if rows.dtype.kind not in "iu" or rows.min(initial=0) < 0 or rows.max(initial=0) > 255:
            raise ValueError("observation: must be whole numbers from 0 to 255")
        return rows.astype(np.uint8)


def _listed(arrays: Any) -> Any:
    """Arrays, or those of each agent, as JSON has them."""
    if isinstance(arrays, dict):
        return {agent: array.tolist() for agent, array in arrays.items()}
    return arrays.tolist()


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPException as error:
        answer = _error(error.status, error.text or error.reason)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    return response


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


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
