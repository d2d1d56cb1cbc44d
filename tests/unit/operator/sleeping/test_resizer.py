"""The patches that put pods to sleep: what a refusal means, and how many there are in a second."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.errors import ApiError
from nitro_operator.sleeping.resizer import DELETION_COST, Resizer
from operator_objects import actor_pod

MISSING = "the server could not find the requested resource"
RIGHT = (
    'pods "p" is forbidden: User "x" cannot patch resource "pods/resize" in API group "" in the namespace "t"'
)
QUOTA = 'pods "p" is forbidden: exceeded quota: few, requested: requests.cpu=249m, used: requests.cpu=4m'
RANGE = 'pods "p" is forbidden: minimum cpu usage per Container is 10m, but request is 1m'


class Server:
    """The part of the API client that patches pods."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error = error
        self.patches: list[Any] = []
        self.at: list[float] = []

    async def merge(self, kind: Any, namespace: str, name: str, patch: Any, subresource: str, _: str) -> Any:
        self.patches.append((str(kind), namespace, name, subresource, patch))
        self.at.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        return actor_pod(name)


def resizer(server: Server, per_second: float = 1e6) -> Resizer:
    return Resizer(server, Cache(), per_second)  # type: ignore[arg-type]


async def test_a_patch_names_the_pod_by_uid_and_the_requests_alone() -> None:
    server = Server()
    assert await resizer(server).resize(actor_pod("p"), {"actor": "1m", "queue-proxy": 1}) is None
    containers = [
        {"name": "actor", "resources": {"requests": {"cpu": "1m"}}},
        {"name": "queue-proxy", "resources": {"requests": {"cpu": "1"}}},
    ]
    wanted = {"metadata": {"uid": "p"}, "spec": {"containers": containers}}
    assert server.patches == [("Pod", "team", "p", "resize", wanted)]


@pytest.mark.parametrize(
    ("status", "message", "lasting"),
    [
        (404, MISSING, "ResizeMissing"),
        (405, "the server does not allow this method", "ResizeMissing"),
        (403, RIGHT, "ResizeForbidden"),
        (403, RANGE, "ResizeRefused"),
        (422, "Pod QOS Class may not change as a result of resizing", "ResizeRefused"),
        (403, QUOTA, None),
        (409, "the object has been modified", None),
        (503, "try again", None),
        (0, "no answer", None),
    ],
)
async def test_what_a_refusal_means(status: int, message: str, lasting: str | None) -> None:
    refused = await resizer(Server(ApiError(status, "Reason", message))).resize(
        actor_pod("p"), {"actor": "1m"}
    )
    assert refused is not None
    assert (refused.lasting.reason if refused.lasting else None) == lasting


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, 'pods "p" not found'),
        (409, "Precondition failed: UID in precondition: a, UID in object meta: b"),
    ],
)
async def test_a_pod_that_is_gone_is_no_refusal(status: int, message: str) -> None:
    assert (
        await resizer(Server(ApiError(status, "Reason", message))).resize(actor_pod("p"), {"actor": "1m"})
        is None
    )


async def test_patches_of_all_jobs_are_bounded_and_those_of_an_operator_that_ends_are_not() -> None:
    server = Server()
    bounded = resizer(server, per_second=100)
    await asyncio.gather(*(bounded.resize(actor_pod(str(n)), {"actor": "1m"}) for n in range(11)))
    assert server.at[-1] - server.at[0] >= 0.09
    assert bounded.seconds(50) == 0.5
    before = len(server.at)
    await asyncio.gather(*(bounded.resize(actor_pod(str(n)), {"actor": 1}, hurry=True) for n in range(8)))
    assert len(server.at) == before + 8


async def test_a_pod_that_was_to_go_first_and_stayed_goes_no_earlier_than_others() -> None:
    server = Server()
    one, two, three = (actor_pod(name) for name in ("one", "two", "three"))
    for pod in (one, two):
        pod["metadata"]["annotations"] = {DELETION_COST: "-1000", "other": "x"}
    await resizer(server).let_go_first([two, three], [one, two, three])
    wanted = {"one": None, "three": "-1000"}
    assert {name: patch["metadata"]["annotations"] for _, _, name, _, patch in server.patches} == {
        name: {DELETION_COST: cost} for name, cost in wanted.items()
    }
    assert all(subresource is None for _, _, _, subresource, _ in server.patches)
