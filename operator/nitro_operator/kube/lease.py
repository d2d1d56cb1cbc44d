"""The right to write: one operator at a time, even if two are installed or a lost node comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from nitro_operator.kube.client import ApiError, Kube
from nitro_operator.kube.kinds import LEASE, Object

logger = logging.getLogger(__name__)

NAME = "nitro-operator"
LEASE_SECONDS = 30
"""Time without a renewal after which another operator takes over."""
WRITE_SECONDS = 20.0
"""Time after a renewal during which its holder writes. Shorter, because a write takes time to arrive."""
RENEW_SECONDS = 5.0
RENEW_TIMEOUT_SECONDS = 15.0
RELEASE_TIMEOUT_SECONDS = 5.0
AT_ONCE = 16


class LeaseTaken(Exception):  # noqa: N818
    """Another operator serves the same jobs."""


class Leases:
    """One Lease in each namespace that this operator serves, or one for the whole cluster.

    A named namespace that is deleted, and the rights with it, needs no Lease: nothing can be written there.
    Times are those of this process, counted from when it saw a Lease change. So the clocks of nodes may
    differ.

    Usage::

        leases = Leases(kube, "nitro-operator-x1b2c", namespaces=["team-a", "team-b"])
        await leases.acquire()      # returns when no other operator serves them
        task = create_task(leases.keep())
        leases.held()               # whether this operator may write
        await leases.release()      # the next operator need not wait
    """

    def __init__(self, kube: Kube, identity: str, *, namespaces: Sequence[str], of_all: str = "") -> None:
        """`of_all`: namespace of the Lease for the whole cluster, which counts if `namespaces` is empty."""
        self._kube = kube
        self._identity = identity
        self._optional = bool(namespaces)  # a namespace may be deleted
        self._namespaces = namespaces or [of_all]
        self._until = float("-inf")
        self._seen: dict[str, tuple[object, float]] = {}  # what another one wrote, and when it was first seen
        self._room = asyncio.Semaphore(AT_ONCE)

    def held(self) -> bool:
        return _now() < self._until

    async def acquire(self) -> None:
        """Wait until no other operator serves any of the namespaces."""
        told = ""
        while True:
            try:
                return await self._renew()
            except (LeaseTaken, ApiError, TimeoutError) as error:
                if repr(error) != told:
                    logger.warning("this operator waits for its Lease, and writes nothing: %r", error)
                    told = repr(error)
            await asyncio.sleep(RENEW_SECONDS)

    async def keep(self) -> None:
        """Renew until another operator has taken over."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._renew()
            except LeaseTaken as error:
                self._until = float("-inf")
                logger.error("this operator writes nothing any more: %s", error)
                return
            except (ApiError, TimeoutError) as error:
                logger.warning("cannot renew the Lease now: %r", error)

    async def release(self) -> None:
        """Give up the Leases, so that the next operator begins at once. Close the connection."""
        if self.held():
            self._until = float("-inf")
            try:
                async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                    await asyncio.gather(*(self._give_back(namespace) for namespace in self._namespaces))
            except (ApiError, TimeoutError) as error:
                logger.info("a Lease is not given up; it ends by itself: %r", error)
        await self._kube.close()

    async def _renew(self) -> None:
        """Take or renew all of them.

        Raises:
            LeaseTaken: another operator holds one.
            ApiError, TimeoutError: it cannot be known now.
        """
        started = _now()
        async with asyncio.timeout(RENEW_TIMEOUT_SECONDS):
            await asyncio.gather(*(self._take(namespace) for namespace in self._namespaces))
        self._until = started + WRITE_SECONDS

    async def _take(self, namespace: str) -> None:
        async with self._room:
            try:
                lease = await self._kube.get(LEASE, namespace, NAME)
            except ApiError as error:
                if error.status == 404:
                    await self._create(namespace)
                elif error.status != 403 or not self._optional:
                    raise
                return
            mark = _holder(lease), (lease.get("spec") or {}).get("renewTime")
            if mark[0] not in (None, "", self._identity) and not self._expired(namespace, mark):
                raise LeaseTaken(f"{mark[0]} serves the same jobs: it holds Lease {namespace}/{NAME}")
            await self._write(lease, self._identity)

    async def _create(self, namespace: str) -> None:
        meta = {"name": NAME, "namespace": namespace}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta}
        try:
            await self._kube.create({**body, "spec": _spec(self._identity)})
        except ApiError as error:
            if error.status not in (403, 404) or not self._optional:
                raise

    async def _give_back(self, namespace: str) -> None:
        lease = await self._kube.get(LEASE, namespace, NAME)
        if _holder(lease) == self._identity:
            await self._write(lease, None)

    async def _write(self, lease: Object, holder: str | None) -> None:
        """Write a Lease as it was read: an ApiError (409) if somebody has written it since."""
        meta = lease["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": _spec(holder)}
        await self._kube.merge(LEASE, meta["namespace"], NAME, patch)

    def _expired(self, namespace: str, mark: tuple[object, object]) -> bool:
        """Whether another operator's Lease has not changed for as long as it lasts."""
        known, since = self._seen.get(namespace, (None, 0.0))
        if known != mark:
            self._seen[namespace] = mark, _now()
            return False
        return _now() - since > LEASE_SECONDS


def _holder(lease: Object) -> str | None:
    found: str | None = (lease.get("spec") or {}).get("holderIdentity")
    return found


def _spec(holder: str | None) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}


def _now() -> float:
    return asyncio.get_running_loop().time()
