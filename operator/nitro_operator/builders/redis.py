"""Redis beside the learner, for weights and fragments. It writes no files: a restart costs one round."""

from __future__ import annotations

from nitro_api.rules.cache_rules import cache_mib
from nitro_operator.builders.view import JobView
from nitro_operator.config import UNPRIVILEGED
from nitro_operator.kube.kinds import Object

CONTAINER = "redis"
PORT = 6379
DISK = "64Mi"
"""Its disk holds only its log."""
ACL_MOUNT = "/etc/nitro"


def redis_container(view: JobView) -> Object:
    """The sidecar: an init container that keeps running, so it starts before and ends after the learner."""
    container = view.container(CONTAINER, view.config.redis_image)
    if view.config.run_as_user == "auto":
        # Public Redis images start as root and then change the user, which a restricted pod may not.
        container["securityContext"] = container["securityContext"] | {"runAsUser": UNPRIVILEGED}
    memory = cache_mib(view.spec)
    probe = {"tcpSocket": {"port": PORT}}
    return {
        **container,
        "restartPolicy": "Always",
        "command": ["redis-server"],
        "args": [
            *["--port", str(PORT)],
            *["--protected-mode", "no"],  # the ACL guards it
            *["--save", ""],
            *["--appendonly", "no"],
            *["--maxmemory", f"{memory}mb"],
            *["--maxmemory-policy", "noeviction"],  # a full cache is an error, never silent loss
            *["--aclfile", f"{ACL_MOUNT}/users.acl"],
            *["--dir", "/tmp"],
        ],
        "ports": [{"name": "redis", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**probe, "periodSeconds": 10, "timeoutSeconds": 5},
        "resources": {
            "requests": {"cpu": "100m", "memory": f"{memory // 4}Mi", "ephemeral-storage": DISK},
            # Redis' own overhead comes on top of maxmemory.
            "limits": {"memory": f"{memory * 3 // 2}Mi", "ephemeral-storage": DISK},
        },
        "volumeMounts": [
            {"name": "redis-acl", "mountPath": ACL_MOUNT, "readOnly": True},
            {"name": "redis-tmp", "mountPath": "/tmp"},
        ],
    }


def redis_volumes(view: JobView) -> list[Object]:
    """The ACL file from the job's Secret, and a scratch folder."""
    items = [{"key": "redis-acl", "path": "users.acl"}]
    secret = {"secretName": view.credentials, "items": items, "defaultMode": 0o440}
    return [{"name": "redis-acl", "secret": secret}, {"name": "redis-tmp", "emptyDir": {"sizeLimit": DISK}}]
