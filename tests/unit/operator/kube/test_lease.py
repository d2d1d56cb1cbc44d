"""The Lease: who may write, whatever happens to operators and to the API server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nitro_operator.kube import lease
from nitro_operator.kube.client import ApiError
from nitro_operator.kube.kinds import Kind
from nitro_operator.kube.lease import LEASE_SECONDS, RENEW_SECONDS, WRITE_SECONDS, Leases, LeaseTaken

Object = dict[str, Any]


class FakeKube:
    """An API server with Leases alone."""

    def __init__(self) -> None:
        self.leases: dict[str, Object] = {}
        self.refusals: dict[str, int] = {}  # namespace -> status
        self._versions = itertools.count(1)

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        status = self.refusals.get(namespace, 200 if namespace in self.leases else 404)
        if status != 200:
            raise ApiError(status, "Refused", f"{kind} {namespace}/{name}")
        return self.leases[namespace]

    async def create(self, obj: Object) -> Object:
        return self._store(obj["metadata"], obj["spec"])

    async def merge(self, _: Kind, namespace: str, name: str, patch: Object) -> Object:
        if patch["metadata"]["resourceVersion"] != self.leases[namespace]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", name)
        return self._store({"name": name, "namespace": namespace}, patch["spec"])

    def _store(self, meta: Object, spec: Object) -> Object:
        stored = {"metadata": {**meta, "resourceVersion": str(next(self._versions))}, "spec": spec}
        self.leases[meta["namespace"]] = stored
        return stored

    async def close(self) -> None:
        pass


class Clock:
    """The time that `lease` reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(lease, "_now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


def operator(kube: FakeKube, name: str, *namespaces: str) -> Leases:
    return Leases(kube, name, namespaces=namespaces, of_all="kube-system")  # type: ignore[arg-type]


async def takes(leases: Leases) -> bool:
    try:
        await leases._renew()
    except LeaseTaken:
        return False
    return True


async def test_a_second_operator_writes_only_when_the_first_has_long_ceased(
    kube: FakeKube, clock: Clock
) -> None:
    first, second = operator(kube, "first"), operator(kube, "second")
    assert await takes(first)
    both: list[tuple[bool, bool]] = []
    for _ in range(60):  # the first renews for a minute, then its node is lost
        clock.now += RENEW_SECONDS
        if clock.now < 1060:
            await first._renew()
        await takes(second)
        both.append((first.held(), second.held()))
    assert (True, True) not in both
    assert both[0] == (True, False)
    assert both[-1] == (False, True)
    silent = both.index((False, True)) * RENEW_SECONDS
    assert 60 - RENEW_SECONDS + LEASE_SECONDS <= silent <= 60 + LEASE_SECONDS + 3 * RENEW_SECONDS
    assert not await takes(first), "it comes back"
    assert not first.held()


async def test_an_operator_that_hears_nothing_ceases_to_write(kube: FakeKube, clock: Clock) -> None:
    only = operator(kube, "only")
    assert await takes(only)
    kube.refusals["kube-system"] = 503
    clock.now += WRITE_SECONDS - 1
    with pytest.raises(ApiError):
        await only._renew()
    assert only.held()
    clock.now += 1
    assert not only.held()
    del kube.refusals["kube-system"]
    assert await takes(only)
    assert only.held()


async def test_the_next_operator_need_not_wait_after_a_release(kube: FakeKube) -> None:
    first, second = operator(kube, "first"), operator(kube, "second")
    await first.acquire()
    await first.release()
    assert not first.held()
    await second.acquire()
    assert second.held()


async def test_a_container_that_starts_again_in_its_pod_need_not_wait(kube: FakeKube) -> None:
    await operator(kube, "pod").acquire()
    again = operator(kube, "pod")
    await again.acquire()
    assert again.held()


async def test_operators_of_different_namespaces_do_not_wait_for_each_other(kube: FakeKube) -> None:
    assert await takes(operator(kube, "first", "a", "b"))
    assert await takes(operator(kube, "second", "c"))
    assert not await takes(operator(kube, "third", "c", "d"))


@pytest.mark.parametrize("status", [403, 404])
async def test_a_deleted_namespace_needs_no_lease(kube: FakeKube, status: int) -> None:
    kube.refusals["gone"] = status
    assert await takes(operator(kube, "first", "gone", "there"))


async def test_the_lease_of_the_whole_cluster_needs_the_right_to_it(kube: FakeKube) -> None:
    kube.refusals["kube-system"] = 403
    with pytest.raises(ApiError, match="403"):
        await operator(kube, "first")._renew()
