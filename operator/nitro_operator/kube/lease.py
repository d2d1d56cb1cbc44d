"""The right to write: one operator at a time, even if two are installed or a lost node comes back."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import LEASE, Object

logger = logging.getLogger(__name__)

NAME = "nitro-operator"
"""The Lease for the whole cluster. Before a dot it begins the names of those for one namespace."""
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
    """The Leases of one operator: one for each namespace that it serves, or one for the whole cluster.

    All operators have them in one namespace, in which no tenant may write. An operator stands by while
    another one holds a Lease for the same jobs: of the same namespace, or one of the two serves the whole
    cluster. Times are those of this process, counted from when it saw a Lease change. So the clocks of nodes
    may differ.

    Usage::

        leases = Leases(kube, "nitro-operator-x1b2c", namespace="kube-system", served=["team-a", "team-b"])
        await leases.acquire()      # returns when no other operator serves them
        task = create_task(leases.keep())
        leases.held()               # whether this operator may write; from any thread
        await leases.release()      # the next operator need not wait
    """

    def __init__(
        self,
        kube: Kube,
        identity: str,
        *,
        namespace: str,
        served: Sequence[str],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespace` is that of the Leases. An operator that serves no named namespace serves them all."""
        self._kube = kube
        self._identity = identity
        self._namespace = namespace
        self._names = [f"{NAME}.{namespace}" for namespace in served] or [NAME]
        self._until = float("-inf")
        self._mine: dict[str, Object] = {}  # its own Leases, as they were written last
        self._seen: dict[str, tuple[object, float]] = {}  # what another one wrote, and when it was first seen
        self._room = asyncio.Semaphore(AT_ONCE)
        self._now = now

    def held(self) -> bool:
        return self._now() < self._until

    async def acquire(self) -> None:
        """Wait until no other operator serves the same jobs."""
        told = ""
        while True:
            try:
                return await self.renew()
            except (LeaseTaken, ApiError, TimeoutError) as error:
                if repr(error) != told:
                    logger.warning("this operator waits for its Lease, and writes nothing: %r", error)
                    told = repr(error)
            await asyncio.sleep(RENEW_SECONDS * random.uniform(0.5, 1.0))

    async def keep(self) -> None:
        """Renew until another operator has taken over."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
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
                    leases = await self._read()
                    mine = [name for name in self._names if _holder(leases.get(name)) == self._identity]
                    await asyncio.gather(*(self._write(name, leases[name], None) for name in mine))
            except (ApiError, TimeoutError) as error:
                logger.info("a Lease is not given up; it ends by itself: %r", error)
        await self._kube.close()

    async def renew(self) -> None:
        """Take or renew all of them.

        Raises:
            LeaseTaken: another operator serves the same jobs.
            ApiError, TimeoutError: it cannot be known now.
        """
        started = self._now()
        # Until then no other operator takes over, and there is nothing to look for. A busy API server answers
        # a write of one object sooner than a list.
        alone = self._until - WRITE_SECONDS + LEASE_SECONDS
        known, self._mine = self._mine if self.held() else {}, {}
        async with asyncio.timeout(RENEW_TIMEOUT_SECONDS):
            if known:
                known = await self._take(known)
            if not known or self._now() >= alone:
                leases = await self._read()
                self._refuse_others(leases)
                known = await self._take(leases)
                # Another one may have looked at the same time. Of two that write and then look, one sees it.
                self._refuse_others(await self._read())
        self._mine = known
        self._until = started + WRITE_SECONDS

    async def _take(self, leases: Mapping[str, Object]) -> dict[str, Object]:
        """Write its Leases, which were found so, and return them as they are now."""
        writes = (self._write(name, leases.get(name), self._identity) for name in self._names)
        return dict(zip(self._names, await asyncio.gather(*writes), strict=True))

    async def _read(self) -> dict[str, Object]:
        """The Leases of all operators, by name."""
        leases = await self._kube.list(LEASE, self._namespace)
        by_name = {lease["metadata"]["name"]: lease for lease in leases}
        return {name: lease for name, lease in by_name.items() if name.partition(".")[0] == NAME}

    def _refuse_others(self, leases: Mapping[str, Object]) -> None:
        taken = [name for name, lease in leases.items() if self._concerns(name) and self._taken(name, lease)]
        if taken:
            served = taken[0].removeprefix(NAME).removeprefix(".")
            raise LeaseTaken(
                f"{_holder(leases[taken[0]])} holds Lease {self._namespace}/{taken[0]}, so it serves "
                f"{f'namespace {served}' if served else 'the whole cluster'}. If it is of another release, "
                "uninstall one of the two, or set watchNamespaces of both so that they have no namespace in "
                "common."
            )

    def _concerns(self, name: str) -> bool:
        """Whether a Lease is for jobs that this operator serves."""
        return name in self._names or NAME in (name, *self._names)

    def _taken(self, name: str, lease: Object) -> bool:
        """Whether another operator holds a Lease, and has renewed it in the time for which it lasts."""
        mark = _holder(lease), (lease.get("spec") or {}).get("renewTime")
        if mark[0] in (None, "", self._identity):
            return False
        known, since = self._seen.get(name, (None, 0.0))
        if known != mark:
            self._seen[name] = mark, self._now()
            return True
        return self._now() - since <= LEASE_SECONDS

    async def _write(self, name: str, lease: Object | None, holder: str | None) -> Object:
        """Create a Lease, or write it as it was read: an ApiError (409) if somebody has written it since."""
        async with self._room:
            if lease is None:
                meta = {"name": name, "namespace": self._namespace}
                about = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta}
                return await self._kube.create({**about, "spec": _spec(holder)})
            version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "spec": _spec(holder)}
            return await self._kube.merge(LEASE, self._namespace, name, patch)


def _holder(lease: Object | None) -> str | None:
    holder: str | None = ((lease or {}).get("spec") or {}).get("holderIdentity")
    return holder


def _spec(holder: str | None) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
