"""The actors' Knative Service. Its template never changes: rounds patch the Revision's scale."""

import hashlib
import json

from nitro_api.pools.pod_resources import ACTOR
from nitro_operator.builders import pod_settings
from nitro_operator.builders.code import code_mounts, code_variables, code_volumes
from nitro_operator.builders.view import JobView, literal, resources, scratch, times
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object

CONTAINER = ACTOR
QUEUE_PROXY = "queue-proxy"
"""Knative's own container in each of its pods."""
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Beginning of the annotation with a container's profile. A Knative Service has no field for it."""
PORT = 8080
DEFAULT_RESOURCES: Object = {
    "requests": {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
}

MIN_SCALE = "autoscaling.knative.dev/min-scale"
MAX_SCALE = "autoscaling.knative.dev/max-scale"
TEMPLATE_ANNOTATIONS = {
    "autoscaling.knative.dev/target-utilization-percentage": "100",
    "autoscaling.knative.dev/target-burst-capacity": "-1",  # the activator stays in the path
    "autoscaling.knative.dev/window": "6s",  # Knative's shortest: released pods end soon
    # Without it Knative gives a Revision up for good after ten minutes; a node or an image may come later.
    "serving.knative.dev/progress-deadline": "720h",
    MIN_SCALE: "0",
    MAX_SCALE: "1",
}
"""Constants, because another value would make a new Revision. Scaling patches the Revision itself."""
KEEP_NODES = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""They ask Karpenter and the cluster autoscaler to leave a pod where it is: nodes of sleepers look empty."""
TARGET = "autoscaling.knative.dev/target"


def actor_service(view: JobView) -> Object:
    """The Knative Service with its one, named Revision."""
    per_pod = view.spec.actor.per_pod
    annotations = {TARGET: str(per_pod), **TEMPLATE_ANNOTATIONS}
    if view.config.apparmor:
        annotations |= {f"{APPARMOR}{container}": "runtime/default" for container in (CONTAINER, QUEUE_PROXY)}
    if view.config.keep_nodes:
        annotations |= KEEP_NODES
    if per_pod > 1:
        annotations[names.ACTORS_PER_POD] = str(per_pod)
    given = view.spec.actor
    template: Object = {
        "metadata": {
            "name": names.revision(view.name),
            **pod_settings.metadata(given, view.queue_labels | view.pod_labels(names.ACTOR), annotations),
        },
        "spec": {
            **pod_settings.pod_fields(given, view),
            "containerConcurrency": per_pod,
            "timeoutSeconds": view.spec.actor.timeout_seconds,
            # An actor sends nothing before its whole answer. Knative's default ends a rollout after 300 s.
            "responseStartTimeoutSeconds": view.spec.actor.timeout_seconds,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [_container(view)],
            "volumes": [
                scratch("tmp", _resources(view)),
                *code_volumes(view),
                *pod_settings.listed(given.volumes),
            ],
        },
    }
    metadata = view.metadata(names.actors(view.name), names.ACTOR)
    metadata["labels"]["networking.knative.dev/visibility"] = "cluster-local"
    metadata["annotations"] = {names.TEMPLATE_HASH: _hash(template)}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"template": template},
    }


def actor_cpu(view: JobView) -> str | int:
    """CPU that the actor's container requests: as Kubernetes fills it in, its limit where it names none."""
    resources_of_actor = _resources(view)
    cpu: str | int = resources_of_actor["requests"].get(
        "cpu", resources_of_actor.get("limits", {}).get("cpu", 0)
    )
    return cpu


def _container(view: JobView) -> Object:
    per_pod = view.spec.actor.per_pod
    return {
        **view.container(CONTAINER, view.spec.actor.image or view.config.actor_image),
        "env": [
            # First: of two variables with one name Kubernetes takes the last.
            *pod_settings.listed(view.spec.actor.env),
            literal("NITRO_ENVIRONMENT", view.environment),
            {"name": "NITRO_TIMEOUT_SECONDS", "value": str(view.spec.actor.timeout_seconds)},
            {"name": "HOME", "value": "/tmp"},
            # Knative's queue-proxy calls it from within the pod, and nobody else needs to.
            {"name": "NITRO_HOST", "value": "127.0.0.1"},
            *([{"name": "NITRO_ACTORS", "value": str(per_pod)}] if per_pod > 1 else []),
            *code_variables(view),
            view.secret_env("NITRO_REDIS_URL", "redis-actor-url"),
            view.secret_env("NITRO_TOKEN", "token"),
        ],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": PORT}, "successThreshold": 1},
        "resources": _resources(view),
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            *code_mounts(view),
            *pod_settings.listed(view.spec.actor.volume_mounts),
        ],
    }


def _resources(view: JobView) -> Object:
    actor = view.spec.actor
    return times(actor.per_pod, resources(actor.resources, DEFAULT_RESOURCES))


def _hash(template: Object) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:16]
