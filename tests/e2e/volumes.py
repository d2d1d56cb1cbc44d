"""Volumes on clusters without storage, and files on a job's claim."""

from __future__ import annotations

import base64

from harness import Cluster, Object, kubectl
from kubernetes import client

HOST_FOLDER = "/tmp/nitro-e2e"
"""Folder on the node that stands in for a storage class where the cluster has none."""
UNPRIVILEGED: Object = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def provide(cluster: Cluster, namespace: str, claim: str) -> None:
    """Where the cluster makes no volumes by itself, a volume on the node that only this claim can bind."""
    classes = client.StorageV1Api(cluster.api).list_storage_class().items
    mark = "storageclass.kubernetes.io/is-default-class"
    if any((one.metadata.annotations or {}).get(mark) == "true" for one in classes):
        return
    folder = f"{HOST_FOLDER}/{namespace}-{claim}"
    _run_on_node(cluster, f"import os; os.makedirs({folder!r}, exist_ok=True); os.chmod({folder!r}, 0o777)")
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}", "labels": {"nitro-e2e": namespace}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": folder, "type": "Directory"},
        },
    }
    cluster.create(volume)


def remove(cluster: Cluster, namespace: str) -> None:
    """Delete what `provide` made for a namespace, with the files."""
    volumes = cluster.core.list_persistent_volume(label_selector=f"nitro-e2e={namespace}").items
    for volume in volumes:
        cluster.core.delete_persistent_volume(volume.metadata.name)
    if volumes:
        pattern = f"{HOST_FOLDER}/{namespace}-*"
        _run_on_node(cluster, f"import glob, shutil\nfor f in glob.glob({pattern!r}): shutil.rmtree(f)")


def read(cluster: Cluster, namespace: str, claim: str, pattern: str) -> bytes:
    """The last file, by name, that matches `pattern` on a claim.

    Raises:
        AssertionError: none does; the text lists what is there.
    """
    program = (
        "import base64, glob, sys\n"
        f"found = sorted(glob.glob('/volume/{pattern}', recursive=True))\n"
        "found or sys.exit(repr(glob.glob('/volume/**', recursive=True)))\n"
        "print(base64.b64encode(open(found[-1], 'rb').read()).decode())"
    )
    container = {
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "volume", "mountPath": "/volume", "readOnly": True}],
    }
    volume = {"name": "volume", "persistentVolumeClaim": {"claimName": claim}}
    return base64.b64decode(_run(cluster, namespace, program, container, volume, UNPRIVILEGED))


def _run_on_node(cluster: Cluster, program: str) -> None:
    """Run a Python program as root with the node's HOST_FOLDER, in a namespace that allows it."""
    container = {"volumeMounts": [{"name": "host", "mountPath": HOST_FOLDER}]}
    volume = {"name": "host", "hostPath": {"path": HOST_FOLDER, "type": "DirectoryOrCreate"}}
    _run(cluster, "default", program, container, volume, {"runAsUser": 0})


def _run(
    cluster: Cluster, namespace: str, program: str, container: Object, volume: Object, context: Object
) -> str:
    """Run a Python program in a pod to its end, delete the pod, and return what it printed."""
    pods = cluster.kind("v1", "Pod")
    run = {"name": "run", "image": cluster.images["operator"], "command": ["python", "-c", program]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "nitro-e2e-"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": context,
            "containers": [run | container],
            "volumes": [volume],
        },
    }
    name = cluster.create(body, namespace)["metadata"]["name"]

    def ended(found: list[Object]) -> str | None:
        phase: str = found[0]["status"]["phase"]
        return phase if phase in ("Succeeded", "Failed") else None

    phase = cluster.until(pods, ended, namespace=namespace, what=f"pod {name} ends", name=name)
    log = kubectl("logs", "--namespace", namespace, name)
    pods.delete(namespace=namespace, name=name, body={"gracePeriodSeconds": 0})
    assert phase == "Succeeded", log
    return log
