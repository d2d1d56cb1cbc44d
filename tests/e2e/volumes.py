"""Volumes on clusters without storage, and files on a job's claim."""

from __future__ import annotations

import base64
import contextlib
import io
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from harness import Cluster, Object, kubectl
from kubernetes import client

HOST_FOLDER = "/tmp/nitro-e2e"
"""Folder on the node that stands in for a storage class where the cluster has none."""
UNPRIVILEGED: Object = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Disks:
    """Volumes for claims where the cluster makes none by itself: folders of the node, all made by one pod."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        classes = client.StorageV1Api(cluster.api).list_storage_class().items
        mark = "storageclass.kubernetes.io/is-default-class"
        self._cluster = cluster
        self._provisioned = any((one.metadata.annotations or {}).get(mark) == "true" for one in classes)
        self._folder = f"{HOST_FOLDER}/{uuid.uuid4().hex[:6]}"
        self._left = iter([f"{self._folder}/{number}" for number in range(count)])
        if not self._provisioned:
            each = f"folder = f'{self._folder}/{{number}}'; os.makedirs(folder); os.chmod(folder, 0o777)"
            _run_on_node(cluster, f"import os\nfor number in range({count}): {each}")

    def provide(self, namespace: str, claim: str) -> None:
        """A volume that only this claim can bind."""
        if self._provisioned:
            return
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{namespace}-{claim}", "labels": {"nitro-e2e": namespace}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": namespace, "name": claim},
                "hostPath": {"path": next(self._left), "type": "Directory"},
            },
        }
        self._cluster.create(volume)

    def remove(self, namespace: str) -> None:
        """Delete the volumes of a namespace; their files go with `close`."""
        for volume in self._cluster.core.list_persistent_volume(
            label_selector=f"nitro-e2e={namespace}"
        ).items:
            self._cluster.core.delete_persistent_volume(volume.metadata.name)

    def close(self) -> None:
        """Delete all files."""
        if not self._provisioned:
            _run_on_node(self._cluster, f"import shutil; shutil.rmtree({self._folder!r}, ignore_errors=True)")


@contextlib.contextmanager
def disks(cluster: Cluster, count: int) -> Iterator[Disks]:
    """Enough for so many claims, until the block ends."""
    made = Disks(cluster, count)
    try:
        yield made
    finally:
        made.close()


def read(cluster: Cluster, namespace: str, claim: str, *patterns: str) -> list[bytes]:
    """For each pattern the last file, by name, that matches it on a claim.

    Raises:
        AssertionError: none does; the text lists what is there.
    """
    program = (
        "import base64, glob, sys\n"
        f"for pattern in {patterns!r}:\n"
        "    found = sorted(glob.glob(f'/volume/{pattern}', recursive=True))\n"
        "    found or sys.exit(repr(glob.glob('/volume/**', recursive=True)))\n"
        "    print(base64.b64encode(open(found[-1], 'rb').read()).decode(), end='.')"
    )
    return [base64.b64decode(file) for file in _look(cluster, namespace, claim, program).split(".")[:-1]]


def copy(cluster: Cluster, namespace: str, claim: str, folder: Path) -> None:
    """Copy everything that is on a claim to a folder here."""
    program = (
        "import base64, io, tarfile\n"
        "packed = io.BytesIO()\n"
        "with tarfile.open(fileobj=packed, mode='w:gz') as tar: tar.add('/volume', '.')\n"
        "print(base64.b64encode(packed.getvalue()).decode())"
    )
    packed = io.BytesIO(base64.b64decode(_look(cluster, namespace, claim, program)))
    with tarfile.open(fileobj=packed) as tar:
        tar.extractall(folder, filter="data")


def _look(cluster: Cluster, namespace: str, claim: str, program: str) -> str:
    """Run a Python program that reads a claim at /volume, and return what it printed."""
    container = {
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "volume", "mountPath": "/volume", "readOnly": True}],
    }
    volume = {"name": "volume", "persistentVolumeClaim": {"claimName": claim}}
    return _run(cluster, namespace, program, container, volume, UNPRIVILEGED)


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

    try:
        phase = cluster.until(pods, ended, namespace=namespace, what=f"pod {name} ends", name=name)
        log = kubectl("logs", "--namespace", namespace, name)
    finally:
        pods.delete(namespace=namespace, name=name, body={"gracePeriodSeconds": 0})
    assert phase == "Succeeded", log
    return log
