"""One asynchronous API client for the process: explicit time-outs, bounded retries with jitter."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTResponse

from nitro_api.loading.yamlfile import to_yaml
from nitro_operator import metrics
from nitro_operator.kube.decoding import decode, lines
from nitro_operator.kube.errors import ApiError, refusal_of
from nitro_operator.kube.kinds import TRAINING_JOB, Kind, Object, kind_of
from nitro_operator.kube.names import FIELD_MANAGER
from nitro_operator.kube.slim import slim

TIMEOUT_SECONDS = 10.0
"""Time-out of the first try. Each further try of a read has twice the time: its answer may be large."""
WRITE_TIMEOUT_SECONDS = 15.0
"""Time-out of a write with all its tries. A reconcile of 60 seconds makes a few, and publishes the status."""
ATTEMPTS = 4
PAGE_OBJECTS, PAGE_JOBS = 100, 5
"""Objects in one answer to a list. The API server takes jobs of 1.5 MiB, which need much more when they are
parsed; all in one answer would not fit."""
WATCH_SECONDS = 600
"""Longest time of one watch."""
SILENCE_SECONDS = 90.0
"""Time without any data after which a watch ends, because its connection may be half open. That is no error:
the API server sends a bookmark about once a minute, but none of a kind without a change since its start."""
FIRST_BACKOFF_SECONDS = 0.2
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# The parameter is needed: the client would encode a body of the plain type a second time.
APPLY_PATCH = "application/apply-patch+yaml; charset=utf-8"


class _Call(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str] | None = None
    body: Object | bytes | None = None
    content_type: str = "application/json"


class Kube:
    """The few API calls that the operator needs, on plain JSON objects.

    Every call raises ApiError, and makes at most ATTEMPTS requests (a list: for each page). A write ends
    within WRITE_TIMEOUT_SECONDS.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._ahead = timedelta(0)
        self.may_write: Callable[[], bool] = lambda: True
        """Whether this process may change anything, see kube/lease.py."""

    def server_now(self) -> datetime:
        """The API server's time, from its last answer: this machine's clock may be wrong."""
        return datetime.now(UTC) + self._ahead

    async def close(self) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def version(self) -> str:
        """The API server's release, such as v1.34.4."""
        return str((await self._request("GET", "/version")).get("gitVersion", ""))

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return await self._request("GET", kind.path(namespace, name))

    async def list(self, kind: Kind, namespace: str | None, **query: str) -> list[Object]:
        """All objects of a kind, slim, in one namespace or all; query: labelSelector, fieldSelector, ...

        Raises ApiError with status 410 if the pages took so long that the API server has forgotten the first.
        """
        objects: list[Object] = []
        page: dict[str, str] = {}
        while True:
            limit = {"limit": str(PAGE_JOBS if kind is TRAINING_JOB else PAGE_OBJECTS)}
            answer = await self._request("GET", kind.path(namespace), {**query, **limit, **page})
            # The items of a list lack apiVersion and kind.
            about = {"apiVersion": kind.api_version, "kind": kind.kind}
            objects += [slim(kind, about | item) for item in answer.get("items") or []]
            following = (answer.get("metadata") or {}).get("continue")
            if not following:
                return objects
            page = {"continue": following}

    async def watch(
        self, kind: Kind, namespace: str | None, since: str | None, begun: Callable[[], None], **query: str
    ) -> AsyncGenerator[Object]:
        """Watch a kind from a version on (None: all objects first), until the server ends it or is silent.

        `begun` is called when the watch is set up: no later change is missed.

        Yields:
            {"type": ADDED, MODIFIED, DELETED or BOOKMARK, "object": ...}. Only the version of a bookmark
            counts.

        Raises:
            ApiError: status 410 if `since` is too old. Nothing is tried again here.
        """
        path = kind.path(namespace)
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        if since is not None:
            query["resourceVersion"] = since
        # The random part keeps watches that began together from beginning together again.
        silence = SILENCE_SECONDS * random.uniform(1.0, 1.25)
        timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + 3 * TIMEOUT_SECONDS, sock_read=silence)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                response = await self._send(_Call("GET", path, query), timeout)
            try:
                if response.status >= 400:
                    raise refusal_of(response.status, await response.read())  # type: ignore[no-untyped-call]
                begun()
                async with aclosing(lines(response.response.content)) as events:
                    async for line in events:
                        event = decode(line)
                        if event["type"] == "ERROR":
                            raise refusal_of(int(event["object"].get("code") or 0), line, event["object"])
                        yield event
            except aiohttp.SocketTimeoutError:
                return
            finally:
                response.response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, "Unreachable", f"watch of {path}: {error!r}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ApiError(0, "Unreadable", f"watch of {path}: {error!r}") from error

    async def create(self, obj: Object) -> Object:
        """Create an object; 409 if it exists already."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("POST", kind_of(obj).path(obj["metadata"]["namespace"]), query, obj)

    async def apply(self, obj: Object, *, force: bool, subresource: str | None = None) -> Object:
        """Server-side apply; 409 if another manager owns a field and `force` is not set."""
        meta = obj["metadata"]
        path = kind_of(obj).path(meta["namespace"], meta["name"], subresource)
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._request("PATCH", path, query, to_yaml(obj), APPLY_PATCH)

    async def merge(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Object,
        subresource: str | None = None,
        content_type: str = MERGE_PATCH,
    ) -> Object:
        """A merge patch. Of the type STRATEGIC_PATCH it finds entries of lists by name, and leaves others."""
        path = kind.path(namespace, name, subresource)
        return await self._request("PATCH", path, {"fieldManager": FIELD_MANAGER}, patch, content_type)

    async def delete(
        self,
        kind: Kind,
        obj: Object,
        *,
        unchanged: bool = False,
        foreground: bool = False,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object; where `unchanged` is set, only this version of it. A missing object, or one that
        is newer, is no error. A pod has its own grace period unless one is given."""
        meta, named = obj["metadata"], ("uid", "resourceVersion") if unchanged else ("uid",)
        body: Object = {
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {name: meta[name] for name in named},
        }
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._request("DELETE", kind.path(meta["namespace"], meta["name"]), body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Object | bytes | None = None,
        content_type: str = "application/json",
    ) -> Object:
        writes = method != "GET"
        call = _Call(method, path, query, body, content_type)
        until = time.monotonic() + WRITE_TIMEOUT_SECONDS
        refused: ApiError | None = None
        for attempt in range(ATTEMPTS):
            if writes and not self.may_write():
                raise ApiError(
                    0, "NoLease", f"{method} {path}: this operator holds no Lease now, so it writes nothing"
                )
            left = max(until - time.monotonic(), 0.1)  # no time-out at all would be 0
            seconds = min(TIMEOUT_SECONDS, left) if writes else TIMEOUT_SECONDS * 2**attempt
            try:
                return await self._once(call, seconds, again=attempt > 0)
            except ApiError as error:
                if error.status or refused is None:
                    refused = error  # a refusal says more than a later try without an answer
                pause = random.uniform(0.5, 1.0) * FIRST_BACKOFF_SECONDS * 4**attempt
                last = attempt == ATTEMPTS - 1 or (writes and time.monotonic() + pause >= until)
                passes = error.status in RETRIED_STATUSES or error.status == 0
                if last or not passes:
                    raise refused from refused.__cause__
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _once(self, call: _Call, seconds: float, *, again: bool) -> Object:
        method, path = call.method, call.path
        try:
            response = await self._send(call, aiohttp.ClientTimeout(total=seconds), again=again)
            raw: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.API_REQUESTS.labels(method, "0").inc()
            raise ApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error
        metrics.API_REQUESTS.labels(method, str(response.status)).inc()
        self._set_clock(response.headers.get("Date"))
        if response.status >= 400:
            raise refusal_of(response.status, raw)
        try:
            parsed: Object = decode(raw) if raw else {}
        except ValueError as error:
            raise ApiError(response.status, "Unreadable", f"{method} {path}: {error}") from error
        return parsed

    async def _send(
        self, call: _Call, timeout: aiohttp.ClientTimeout, *, again: bool = False
    ) -> RESTResponse:
        method, path, query, body, content_type = call
        url = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        if again:
            # One of several API servers may be faulty. A new connection can reach another one.
            headers["Connection"] = "close"
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        return await self._api.call_api(method, url, headers, body, _request_timeout=timeout)

    def _set_clock(self, date: str | None) -> None:
        if date:
            self._ahead = parsedate_to_datetime(date) - datetime.now(UTC)


async def connect() -> Kube:
    """Create a client from the pod's service account, otherwise from the kubeconfig.

    In a pod no proxy of the environment (HTTPS_PROXY) is used: it is for what is outside the cluster.
    """
    configuration = Configuration()
    try:
        kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        configuration.client_session_kwargs = {"trust_env": False}
    except kubernetes_config.ConfigException:
        await kubernetes_config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    # No limit: every watch holds a connection, and the number of workers limits all others.
    configuration.connection_pool_maxsize = 0
    return Kube(ApiClient(configuration))
