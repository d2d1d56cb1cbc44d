"""Whose a pod is. Labels are a tenant's, so only owners count, by uid: ReplicaSet, Deployment, Revision."""

from __future__ import annotations

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import DEPLOYMENT, REPLICA_SET, REVISION, Kind, Object


class Owners:
    """Find out which pods a job's own Revision owns. Each owner between them is read once.

    Usage::

        if await owners.owns(revision, pod):
            ...
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._of: dict[str, str | None] = {}
        """Uid of a ReplicaSet -> uid of the Revision that owns it."""

    async def owns(self, revision: Object, pod: Object) -> bool:
        """Whether the Revision owns the pod, itself or through its Deployment.

        Raises:
            ApiError: an owner cannot be read.
        """
        uid: str = revision["metadata"]["uid"]
        namespace: str = pod["metadata"]["namespace"]
        if _owner(pod, REVISION) == (revision["metadata"]["name"], uid):
            return True
        replicas = _owner(pod, REPLICA_SET)
        if replicas is None:
            return False
        if replicas[1] not in self._of:
            deployment = _owner(await self._read(REPLICA_SET, namespace, replicas), DEPLOYMENT)
            found = await self._read(DEPLOYMENT, namespace, deployment) if deployment is not None else None
            owner = _owner(found, REVISION)
            self._of[replicas[1]] = owner[1] if owner is not None else None
        return self._of[replicas[1]] == uid

    async def _read(self, kind: Kind, namespace: str, named: tuple[str, str]) -> Object | None:
        """The object of that name and uid; None if it is gone, or is another one."""
        try:
            found = await self._kube.get(kind, namespace, named[0])
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found if found["metadata"]["uid"] == named[1] else None


def _owner(obj: Object | None, kind: Kind) -> tuple[str, str] | None:
    """Name and uid of the owner of that kind that controls an object."""
    for one in (obj or {}).get("metadata", {}).get("ownerReferences") or []:
        same = one.get("kind") == kind.kind and one.get("apiVersion") == kind.api_version
        if same and one.get("controller"):
            return str(one["name"]), str(one["uid"])
    return None
