"""Whose a pod is. Labels are a tenant's, so only owners count, by uid: ReplicaSet, Deployment, Revision."""

from nitro_api.pools.pod_resources import SLEEPING_CPU
from nitro_operator.builders.actors import CONTAINER, QUEUE_PROXY
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import DEPLOYMENT, REPLICA_SET, REVISION, Kind, Object


class Owners:
    """Find out which pods a job's own Revision owns. Each owner between them is read once."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._of: dict[str, str | None] = {}
        """Uid of a ReplicaSet -> uid of the Revision that owns it."""
        self._proxies: dict[str, str | None] = {}
        """Uid of a ReplicaSet -> CPU that its template requests for Knative's container."""

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
            replica_set = await self._read(REPLICA_SET, namespace, replicas)
            self._proxies[replicas[1]] = _proxy(replica_set)
            deployment = _owner(replica_set, DEPLOYMENT)
            observed = await self._read(DEPLOYMENT, namespace, deployment) if deployment is not None else None
            owner = _owner(observed, REVISION)
            self._of[replicas[1]] = owner[1] if owner is not None else None
        return self._of[replicas[1]] == uid

    def requests(self, pod: Object, cpu: str | int | None) -> dict[str, str | int]:
        """CPU of the containers of a pod that `owns` has found.

        Args:
            pod: of a job. Its own requests are not read, because they may have been changed.
            cpu: what its actor has awake; None to put it to sleep. Knative's container sleeps, too; what that
                has awake is in the template of the pod's ReplicaSet.
        """
        replicas = _owner(pod, REPLICA_SET)
        proxy = self._proxies.get(replicas[1]) if replicas is not None else None
        if cpu is None:
            return dict.fromkeys([CONTAINER] if proxy is None else [CONTAINER, QUEUE_PROXY], SLEEPING_CPU)
        return {CONTAINER: cpu} | ({} if proxy is None else {QUEUE_PROXY: proxy})

    async def _read(self, kind: Kind, namespace: str, named: tuple[str, str]) -> Object | None:
        """The object of that name and uid; None if it is gone, or is another one."""
        try:
            observed = await self._kube.get(kind, namespace, named[0])
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return observed if observed["metadata"]["uid"] == named[1] else None


def _proxy(replicas: Object | None) -> str | None:
    """CPU that the template of a ReplicaSet requests for Knative's container; None where it requests none."""
    template = ((replicas or {}).get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or []
    proxy: Object = next((container for container in containers if container.get("name") == QUEUE_PROXY), {})
    cpu: str | None = ((proxy.get("resources") or {}).get("requests") or {}).get("cpu")
    return cpu


def _owner(obj: Object | None, kind: Kind) -> tuple[str, str] | None:
    """Name and uid of the owner of that kind that controls an object."""
    for reference in (obj or {}).get("metadata", {}).get("ownerReferences") or []:
        same = reference.get("kind") == kind.kind and reference.get("apiVersion") == kind.api_version
        if same and reference.get("controller"):
            return str(reference["name"]), str(reference["uid"])
    return None
