"""The Kubernetes kinds that the operator reads and writes, and their URL paths."""

from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]
"""A Kubernetes object as the API's JSON."""


class JobKey(NamedTuple):
    """Namespace and name of a NitroTrainingJob."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Kind:
    """One resource of the API."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, one object or its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.kind


TRAINING_JOB = Kind("nitro.dev", "v1alpha1", "nitrotrainingjobs", "NitroTrainingJob")
LEARNER_JOB = Kind("batch", "v1", "jobs", "Job")
REPLICA_SET = Kind("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
POD = Kind("", "v1", "pods", "Pod")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
SERVICE = Kind("", "v1", "services", "Service")
SECRET = Kind("", "v1", "secrets", "Secret")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
VOLUME_CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
KNATIVE_SERVICE = Kind("serving.knative.dev", "v1", "services", "Service")
REVISION = Kind("serving.knative.dev", "v1", "revisions", "Revision")
EVENT = Kind("", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACE = Kind("", "v1", "namespaces", "Namespace")
DEFINITION = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")

KNATIVE_KINDS = (KNATIVE_SERVICE, REVISION)

WATCHED_CHILDREN = (
    LEARNER_JOB,
    POD,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLUME_CLAIM,
    ROLE,
    ROLE_BINDING,
    NETWORK_POLICY,
    *KNATIVE_KINDS,
)
"""Every child except the Secret: the operator needs no right to list Secrets."""


def kind_of(obj: Object) -> Kind:
    """The Kind of an object that a builder made."""
    return _BY_NAME[obj["apiVersion"], obj["kind"]]


_BY_NAME = {(k.api_version, k.kind): k for k in (TRAINING_JOB, SECRET, EVENT, LEASE, *WATCHED_CHILDREN)}
