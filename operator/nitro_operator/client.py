"""One asynchronous API client for the process: explicit time-outs, bounded retries with jitter."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator import metrics
from nitro_operator.kinds import Kind, Object, kind_of
from nitro_operator.names import FIELD_MANAGER

TIMEOUT_SECONDS = 10.0
ATTEMPTS = 4
FIRST_BACKOFF_SECONDS = 0.2
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
BEING_TERMINATED = "because it is being terminated"
"""What the API server says of a namespace where nothing can be made; only its own answers give the cause
as well."""
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


class ApiError(Exception):
    """The API server refused a request, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str, causes: Collection[str] = ()) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes

    @property
    def over_quota(self) -> bool:
        return self.status == 403 and "exceeded quota" in self.message

    @property
    def namespace_terminating(self) -> bool:
        """The namespace is being deleted: it takes nothing new, however often one asks."""
        told = "NamespaceTerminating" in self.causes or BEING_TERMINATED in self.message
        return self.status == 403 and told


async def connect() -> Kube:
    """A client from the pod's service account, else from the kubeconfig."""
    configuration = Configuration()
    try:
        kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except kubernetes_config.ConfigException:
        await kubernetes_config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.connection_pool_maxsize = 32
    return Kube(ApiClient(configuration))


class Kube:
    """The few API calls that the operator needs, on plain JSON objects.

    Usage::

        kube = await connect()
        service = await kube.apply(builders.redis_service(...), force=True)
        await kube.close()

    Every call raises ApiError, and makes at most ATTEMPTS requests of TIMEOUT_SECONDS each.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._ahead = timedelta(0)

    def server_now(self) -> datetime:
        """The API server's time, from its last answer: this machine's clock may be wrong."""
        return datetime.now(UTC) + self._ahead

    async def close(self) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return await self._request("GET", kind.path(namespace, name))

    async def list(self, kind: Kind, namespace: str | None, **query: str) -> list[Object]:
        """All objects of a kind, in one namespace or all; query: labelSelector, fieldSelector, ..."""
        answer = await self._request("GET", kind.path(namespace), query)
        # A list leaves out what all its items are; elsewhere an object says so itself.
        return [
            {"apiVersion": kind.api_version, "kind": kind.kind} | item for item in answer.get("items") or []
        ]

    async def create(self, obj: Object) -> Object:
        """Create; 409 if it is there already."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("POST", kind_of(obj).path(obj["metadata"]["namespace"]), query, obj)

    async def apply(self, obj: Object, *, force: bool, subresource: str | None = None) -> Object:
        """Server-side apply; 409 if another manager owns a field and `force` is not set."""
        meta = obj["metadata"]
        path = kind_of(obj).path(meta["namespace"], meta["name"], subresource)
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._request("PATCH", path, query, obj, APPLY_PATCH)

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("PATCH", kind.path(namespace, name), query, patch, MERGE_PATCH)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, *, foreground: bool = False
    ) -> None:
        """Delete this very object; one that is gone or was made anew is left alone."""
        body = {
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {"uid": uid},
        }
        try:
            await self._request("DELETE", kind.path(namespace, name), body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def evict(self, namespace: str, pod: str) -> None:
        """Evict a pod: it counts as a disruption, which costs its Job no retry."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        await self._request("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body=body)

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        for attempt in range(ATTEMPTS):
            try:
                return await self._once(method, path, query, body, content_type, again=attempt > 0)
            except ApiError as error:
                last = attempt == ATTEMPTS - 1
                if last or not (error.status in RETRIED_STATUSES or error.status == 0):
                    raise
            await asyncio.sleep(random.uniform(0.5, 1.0) * FIRST_BACKOFF_SECONDS * 4**attempt)
        raise AssertionError("unreachable")

    async def _once(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None,
        body: Object | None,
        content_type: str,
        *,
        again: bool,
    ) -> Object:
        url = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        if again:
            # Of several API servers one may be ill, and would answer for as long as it is spoken to.
            headers["Connection"] = "close"
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        try:
            response = await self._api.call_api(
                method, url, headers, body, _request_timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            )
            raw: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.API_REQUESTS.labels(method, "0").inc()
            raise ApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error
        metrics.API_REQUESTS.labels(method, str(response.status)).inc()
        self._set_clock(response.headers.get("Date"))
        if response.status >= 400:
            raise _refusal(response.status, raw)
        parsed: Object = json.loads(raw) if raw else {}
        return parsed

    def _set_clock(self, date: str | None) -> None:
        if date:
            self._ahead = parsedate_to_datetime(date) - datetime.now(UTC)


def _refusal(status: int, raw: bytes) -> ApiError:
    try:
        told: dict[str, Any] = json.loads(raw)
    except ValueError:
        told = {}
    causes = [str(one.get("reason")) for one in (told.get("details") or {}).get("causes") or []]
    return ApiError(status, str(told.get("reason") or "Error"), str(told.get("message") or raw[:500]), causes)
