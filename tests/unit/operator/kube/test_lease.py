"""The Lease: who may write, whatever happens to operators and to the API server."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Kind
from nitro_operator.kube.lease import LEASE_SECONDS, RENEW_SECONDS, WRITE_SECONDS, Leases, LeaseTaken

Object = dict[str, Any]


class FakeKube:
    """An API server with Leases alone, which answers in the order of its requests. `now` is the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lists = 0
        self.patches = asyncio.Event()  # while it is not set, patches are on their way
        self.patches.set()
        self.leases: dict[str, Object] = {}
        self.refuses = 0  # with this status
        self._versions = itertools.count(1)

    async def list(self, *_: object) -> list[Object]:
        await self._answer()
        self.lists += 1
        return [*self.leases.values()]

    async def create(self, obj: Object) -> Object:
        await self._answer()
        if obj["metadata"]["name"] in self.leases:
            raise ApiError(409, "AlreadyExists", obj["metadata"]["name"])
        return self.store(obj["metadata"], obj["spec"])

    async def merge(self, _: Kind, namespace: str, name: str, patch: Object) -> Object:
        await self.patches.wait()
        await self._answer()
        if patch["metadata"]["resourceVersion"] != self.leases[name]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", name)
        return self.store({"name": name, "namespace": namespace}, patch["spec"])

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            raise ApiError(self.refuses, "Refused", "by the API server")

    def store(self, meta: Object, spec: Object) -> Object:
        stored = {"metadata": {**meta, "resourceVersion": str(next(self._versions))}, "spec": spec}
        self.leases[meta["name"]] = stored
        return stored

    async def close(self) -> None:
        pass


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


def operator(kube: FakeKube, name: str, *namespaces: str) -> Leases:
    return Leases(
        kube,  # type: ignore[arg-type]
        name,
        namespace="kube-system",
        served=namespaces,
        now=lambda: kube.now,
    )


async def takes(leases: Leases) -> bool:
    try:
        await leases.renew()
    except (LeaseTaken, ApiError):
        return False
    return True


async def test_a_second_operator_writes_only_when_the_first_has_long_ceased(kube: FakeKube) -> None:
    first, second = operator(kube, "first"), operator(kube, "second")
    assert await takes(first)
    both: list[tuple[bool, bool]] = []
    for _ in range(60):  # the first renews for a minute, then its node is lost
        kube.now += RENEW_SECONDS
        if kube.now < 1060:
            await first.renew()
        await takes(second)
        both.append((first.held(), second.held()))
    assert (True, True) not in both
    assert both[0] == (True, False)
    assert both[-1] == (False, True)
    silent = both.index((False, True)) * RENEW_SECONDS
    assert 60 - RENEW_SECONDS + LEASE_SECONDS <= silent <= 60 + LEASE_SECONDS + 3 * RENEW_SECONDS
    assert not await takes(first), "it comes back"
    assert not first.held()


async def test_an_operator_that_hears_nothing_ceases_to_write(kube: FakeKube) -> None:
    only = operator(kube, "only")
    assert await takes(only)
    kube.refuses = 503
    kube.now += WRITE_SECONDS - 1
    with pytest.raises(ApiError):
        await only.renew()
    assert only.held()
    kube.now += 1
    assert not only.held()
    kube.refuses = 0
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


async def test_to_renew_takes_one_write(kube: FakeKube) -> None:
    only = operator(kube, "only")
    await only.renew()
    at_first = kube.lists
    for _ in range(5):
        kube.now += RENEW_SECONDS
        await only.renew()
    assert kube.lists == at_first
    kube.store({"name": "nitro-operator"}, {"holderIdentity": None})  # somebody has written it
    with pytest.raises(ApiError, match="409"):
        await only.renew()
    assert await takes(only)
    assert kube.leases["nitro-operator"]["spec"]["holderIdentity"] == "only"


async def test_a_renewal_that_arrives_when_another_one_has_taken_over_does_not_count(kube: FakeKube) -> None:
    whole, part = operator(kube, "whole"), operator(kube, "part", "team")
    assert await takes(whole)
    assert not await takes(part)
    kube.now += WRITE_SECONDS - 1
    kube.patches.clear()
    late = asyncio.create_task(takes(whole))
    await asyncio.sleep(0)
    kube.now += LEASE_SECONDS
    assert await takes(part)
    kube.patches.set()
    assert not await late
    assert not whole.held()
    assert await takes(part)


SCOPES = [((), ()), ((), ("a",)), (("a", "b"), ()), (("a", "b"), ("b", "c"))]


@pytest.mark.parametrize(("first", "second"), SCOPES)
async def test_operators_of_a_common_namespace_exclude_each_other(
    kube: FakeKube, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    one, other = operator(kube, "one", *first), operator(kube, "other", *second)
    assert await takes(one)
    for _ in range(20):
        kube.now += RENEW_SECONDS
        await one.renew()
        with pytest.raises(LeaseTaken, match=r"one holds Lease kube-system/nitro-operator.* set watchNames"):
            await other.renew()
    await one.release()
    assert await takes(other)
    assert not await takes(one)


@pytest.mark.parametrize(("first", "second"), SCOPES)
async def test_of_two_operators_that_start_at_the_same_time_at_most_one_works(
    kube: FakeKube, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    one, other = operator(kube, "one", *first), operator(kube, "other", *second)
    assert sum(await asyncio.gather(takes(one), takes(other))) <= 1
    assert not (one.held() and other.held())
    kube.now += LEASE_SECONDS + 1  # each has seen the other's Lease only while it looked
    for _ in range(10):
        kube.now += RENEW_SECONDS
        await takes(one)
        await takes(other)
        assert not (one.held() and other.held())
    assert one.held() or other.held()


async def test_the_leases_of_an_operator_that_is_gone_end_together(kube: FakeKube) -> None:
    namespaces = [f"team-{number}" for number in range(40)]
    assert await takes(operator(kube, "gone", *namespaces))
    whole = operator(kube, "whole")
    assert not await takes(whole)
    kube.now += LEASE_SECONDS + 1
    assert await takes(whole)


async def test_other_leases_of_the_namespace_do_not_count(kube: FakeKube) -> None:
    await kube.create({"metadata": {"name": "nitro-operator-like"}, "spec": {"holderIdentity": "x"}})
    assert await takes(operator(kube, "first"))


async def test_leases_need_the_right_to_them(kube: FakeKube) -> None:
    kube.refuses = 403
    with pytest.raises(ApiError, match="403"):
        await operator(kube, "first").renew()
