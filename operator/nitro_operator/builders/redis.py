"""Redis beside the learner, for weights and fragments. It writes no files: a restart costs one round.

It listens within the pod only, because it has no bound for connections that do not log in. Actors come in
through the gate (nitro_learner/gate.py), a container beside it.
"""

from nitro_api.resolution.resolve import most_actors
from nitro_api.rules.cache_rules import cache_mib
from nitro_api.spec.pods import Resources
from nitro_operator.builders.view import JobView, resources
from nitro_operator.config import UNPRIVILEGED
from nitro_operator.kube.kinds import Object

CONTAINER = "redis"
GATE = "redis-gate"
PORT = 6379
DISK = "64Mi"
"""Its disk holds only its log."""
ACL_MOUNT = "/etc/nitro"
ACL_FILE = f"{ACL_MOUNT}/users.acl"
SOCKET_FOLDER = "/tmp"
SOCKET = f"{SOCKET_FOLDER}/redis.sock"
GATE_MIB = 96
"""Memory of the gate, without that of its connections."""


def redis_container(view: JobView) -> Object:
    """The sidecar: an init container that keeps running, so it starts before and ends after the learner."""
    container = view.container(CONTAINER, view.config.redis_image)
    if view.config.run_as_user == "auto":
        # Public Redis images start as root and then change the user, which a restricted pod may not.
        container["securityContext"] = container["securityContext"] | {"runAsUser": UNPRIVILEGED}
    return {
        **container,
        "restartPolicy": "Always",
        "command": ["redis-server"],
        "args": [
            *["--bind", "127.0.0.1"],  # the learner's address; the pod's own is the gate's
            *["--port", str(PORT)],
            *["--unixsocket", SOCKET],
            *["--unixsocketperm", "777"],  # only this container and the gate have the folder
            *["--protected-mode", "no"],  # the ACL guards it
            *["--save", ""],
            *["--appendonly", "no"],
            *["--maxmemory", f"{cache_mib(view.spec)}mb"],
            *["--maxmemory-policy", "noeviction"],  # a full cache is an error, never silent loss
            *["--aclfile", ACL_FILE],
            *["--dir", SOCKET_FOLDER],
        ],
        # No probes: the kubelet would reach the gate, which starts when Redis answers.
        "resources": _resources(view),
        "volumeMounts": _mounts(),
    }


def _resources(view: JobView) -> Object:
    given = view.spec.cache.resources if view.spec.cache else None
    size = f"{cache_mib(view.spec) * 3 // 2}Mi"  # Redis' own overhead comes on top of maxmemory
    # Quotas of a namespace may ask for every limit, and bound how far limits are above requests.
    default: Object = {
        "requests": {"cpu": "100m", "memory": size, "ephemeral-storage": DISK},
        "limits": {"cpu": "1", "memory": size, "ephemeral-storage": DISK},
    }
    named = Resources(requests=given.requests, limits=given.limits) if given else Resources()
    return resources(named, default)


def gate_container(view: JobView, image: str) -> Object:
    """The sidecar through which actors reach Redis, at the same port of the pod's own addresses.

    Args:
        image: the platform's image of a learner, which is that of this operator's release.
    """
    own = {"memory": f"{GATE_MIB + most_actors(view.spec.scaling) // 2}Mi", "ephemeral-storage": DISK}
    redis = _resources(view)
    return {
        **view.container(GATE, image),
        "restartPolicy": "Always",
        "command": ["python", "-m", "nitro_learner.gate"],
        "args": [
            *["--listen", "$(POD_IPS)"],
            *["--port", str(PORT)],
            *["--users", ACL_FILE],
            *["--redis", SOCKET],
        ],
        "env": [{"name": "POD_IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}],
        "ports": [{"name": "redis", "containerPort": PORT, "protocol": "TCP"}],
        # It listens once Redis answers. A liveness probe could only tell what strangers do to its port.
        "startupProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 90},
        # Of processor time as much as Redis: what comes in and goes out takes both of them about as long.
        "resources": {
            part: own | {name: redis[part][name] for name in ("cpu",) if name in redis.get(part, {})}
            for part in ("requests", "limits")
        },
        "volumeMounts": _mounts(),
    }


def _mounts() -> list[Object]:
    return [
        {"name": "redis-acl", "mountPath": ACL_MOUNT, "readOnly": True},
        {"name": "redis-tmp", "mountPath": SOCKET_FOLDER},
    ]


def redis_volumes(view: JobView) -> list[Object]:
    """The ACL file from the job's Secret, and a scratch folder."""
    items = [{"key": "redis-acl", "path": "users.acl"}]
    secret = {"secretName": view.credentials, "items": items, "defaultMode": 0o440}
    return [{"name": "redis-acl", "secret": secret}, {"name": "redis-tmp", "emptyDir": {"sizeLimit": DISK}}]
