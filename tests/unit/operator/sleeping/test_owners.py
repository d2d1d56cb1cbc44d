"""Whose a pod is, and what its containers request awake and asleep."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import DEPLOYMENT, POD, REPLICA_SET, REVISION, Kind
from nitro_operator.sleeping.owners import Owners

Owned = dict[str, Any]


def owned(kind: Kind, name: str, by: tuple[Kind, str] | None = None, **more: Any) -> Owned:
    """An object whose uid is its name, and which another one controls."""
    meta: Owned = {"name": name, "uid": name, "namespace": "team"}
    if by is not None:
        owner = {"apiVersion": by[0].api_version, "kind": by[0].kind, "name": by[1], "uid": by[1]}
        meta["ownerReferences"] = [owner | {"controller": True}]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **more}


class Server:
    """The part of the API client that reads owners."""

    def __init__(self, *objects: Owned) -> None:
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}

    async def get(self, kind: Kind, namespace: str, name: str) -> Owned:  # noqa: ARG002
        try:
            return self.objects[kind.kind, name]
        except KeyError:
            raise ApiError(404, "NotFound", f"{name} not found") from None


def replicas(*containers: Owned) -> Owned:
    template = {"spec": {"containers": list(containers)}}
    return owned(REPLICA_SET, "replicas", (DEPLOYMENT, "deployment"), spec={"template": template})


REVISION_OF_JOB = owned(REVISION, "revision")
ACTOR = owned(POD, "pod", (REPLICA_SET, "replicas"))


@pytest.mark.parametrize(
    ("container", "awake", "asleep"),
    [
        (
            {"name": "queue-proxy", "resources": {"requests": {"cpu": "25m"}}},
            {"actor": "250m", "queue-proxy": "25m"},
            {"actor": "1m", "queue-proxy": "1m"},
        ),
        ({"name": "queue-proxy", "resources": {}}, {"actor": "250m"}, {"actor": "1m"}),
        ({"name": "other", "resources": {"requests": {"cpu": "1"}}}, {"actor": "250m"}, {"actor": "1m"}),
    ],
)
async def test_knatives_container_sleeps_where_the_template_of_the_replicaset_requests_cpu_for_it(
    container: Owned, awake: Owned, asleep: Owned
) -> None:
    deployment = owned(DEPLOYMENT, "deployment", (REVISION, "revision"))
    owners = Owners(Server(replicas(container), deployment))  # type: ignore[arg-type]
    assert owners.requests(ACTOR, None) == {"actor": "1m"}, "nothing is known of it yet"
    assert await owners.owns(REVISION_OF_JOB, ACTOR)
    assert owners.requests(ACTOR, "250m") == awake
    assert owners.requests(ACTOR, None) == asleep


async def test_a_pod_of_another_owner_is_not_the_jobs() -> None:
    deployment = owned(DEPLOYMENT, "deployment", (REVISION, "another"))
    owners = Owners(Server(replicas(), deployment))  # type: ignore[arg-type]
    assert not await owners.owns(REVISION_OF_JOB, ACTOR)
    assert not await Owners(Server()).owns(REVISION_OF_JOB, ACTOR)  # type: ignore[arg-type]
    assert await owners.owns(REVISION_OF_JOB, owned(POD, "p", (REVISION, "revision")))
