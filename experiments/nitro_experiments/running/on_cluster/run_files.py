"""The files that a job of a cluster left, copied to this machine: from its bucket, or from its claim."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import IO, Any

import urllib3
import websocket
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from nitro_api.spec.checkpoint import CheckpointBucket
from nitro_learner.cluster.api import TIMEOUT_SECONDS
from nitro_learner.cluster.jobs import ClusterError, Job, NamespaceJobs, explained
from nitro_learner.run import folders
from nitro_learner.run.bucket import RunBucket
from nitro_learner.run.rundir import RunDir

_MOUNT = "/run-folder"
_CONTAINER = "files"
_START_SECONDS = 300
_SILENCE_SECONDS = 60.0
_ENDING = 3
"""The channel of an exec on which the kubelet says how the command ended."""
_LIFE_SECONDS = 3600
"""After so long the pod ends by itself, where this process could not remove it."""
_PACK = f"""\
import sys, tarfile

def visible(entry):
    return None if entry.name.rpartition("/")[2].startswith(".") and entry.name != "." else entry

with tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz") as archive:
    archive.add({_MOUNT!r}, ".", filter=visible)
"""
_RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
_OF_THE_LEARNERS_POD = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "runtimeClassName",
    "securityContext",
    "tolerations",
)
"""Fields that decide whether a pod may run, and where the claim can be mounted."""


class RunFiles:
    """Copy what jobs left. Blocking: for threads.

    A claim is read by a short-lived pod with the learner's image, as the learner's pod was allowed to run.

    Args:
        jobs: the jobs of the namespace.
        closing: when set, waiting ends.
    """

    def __init__(self, jobs: NamespaceJobs, closing: threading.Event) -> None:
        self._jobs = jobs
        self._namespace = jobs.namespace
        self._closing = closing

    def copy(self, job: Job, folder: RunDir, accept: Callable[[RunDir], None]) -> None:
        """Replace the run's folder on this machine by that of the job, once the copy is complete.

        Args:
            accept: gets the copy before it takes the folder's place; what it raises keeps the folder.

        Raises:
            ClusterError: the cluster does not give the files.
            BucketError: the bucket does not.
            OSError: they cannot be written here.
        """
        location = ((job.get("status") or {}).get("checkpoint") or {}).get("location")
        if not location:
            raise ClusterError(f"job {job['metadata']['name']} has written no checkpoint")
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        copied = RunDir(folder.path.with_name(f".{folder.path.name}.partial"))
        shutil.rmtree(copied.path, ignore_errors=True)
        copied.path.mkdir()
        if location.startswith("s3://"):
            own = CheckpointBucket.model_validate(job["spec"]["learner"]["checkpoint"]["s3"])
            RunBucket.at(location, own).restore(copied)
        else:
            self._copy_claim(job, location, copied)
        accept(copied)
        folders.mark(copied.path)
        shutil.rmtree(folder.path, ignore_errors=True)
        copied.path.replace(folder.path)

    def _copy_claim(self, job: Job, location: str, folder: RunDir) -> None:
        with self._reader(job, location) as pod, tempfile.TemporaryFile() as packed:
            for part in self._run(pod, ["python", "-c", _PACK]):
                packed.write(part)
            packed.seek(0)
            _unpack(packed, folder)

    @contextmanager
    def _reader(self, job: Job, location: str) -> Iterator[str]:
        """A running pod that has the run's folder, by name; removed at the end."""
        body: Any = _pod(job, self._learner(job, location), location)
        core = client.CoreV1Api(self._jobs.client)
        with explained():
            made = core.create_namespaced_pod(self._namespace, body, _request_timeout=TIMEOUT_SECONDS)
        name = str(self._as_json(made)["metadata"]["name"])
        try:
            self._wait(name)
            yield name
        finally:
            # A pod that cannot be removed now goes with its job.
            with suppress(ApiException, urllib3.exceptions.HTTPError, OSError):
                core.delete_namespaced_pod(
                    name, self._namespace, grace_period_seconds=0, _request_timeout=TIMEOUT_SECONDS
                )

    def _learner(self, job: Job, location: str) -> dict[str, Any]:
        """The spec of the learner's pods."""
        name = job["metadata"]["name"]
        with explained():
            jobs = client.BatchV1Api(self._jobs.client).list_namespaced_job(
                self._namespace,
                label_selector=f"nitro.dev/job={name},app.kubernetes.io/component=learner",
                _request_timeout=TIMEOUT_SECONDS,
            )
        if not jobs.items:
            raise ClusterError(
                f"somebody removed the Job of {name}'s learner, which says how the claim can be read. Copy "
                f"{location} with a pod of yours, or remove the job {name}, and its run begins anew"
            )
        spec: dict[str, Any] = self._as_json(jobs.items[0])["spec"]["template"]["spec"]
        return spec

    def _wait(self, pod: str) -> None:
        """Wait until the pod runs."""
        core = client.CoreV1Api(self._jobs.client)
        for _ in range(_START_SECONDS):
            with explained():
                pod_object = core.read_namespaced_pod(pod, self._namespace, _request_timeout=TIMEOUT_SECONDS)
            status = self._as_json(pod_object)["status"]
            if status["phase"] == "Running":
                return
            if status["phase"] in ("Failed", "Succeeded") or self._closing.wait(1.0):
                break
        raise ClusterError(f"pod {pod}, which reads the run's files, does not run: {_why(status)}")

    def _run(self, pod: str, command: list[str]) -> Iterator[bytes]:
        """What a command in the pod prints.

        Raises:
            ClusterError: it failed, or nothing came for some time.
        """
        websocket.setdefaulttimeout(_SILENCE_SECONDS)  # of each connect and read; `stream` has no argument
        # With a client of its own, whose requests `stream` turns into websockets while it begins.
        core = client.CoreV1Api(client.ApiClient(self._jobs.client.configuration))
        ending, last_read = b"", time.monotonic()
        try:
            answer = stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                self._namespace,
                container=_CONTAINER,
                command=command,
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                binary=True,
                _preload_content=False,
            )
            with closing(answer):
                while answer.is_open():
                    answer.update(timeout=1.0)
                    if answer.peek_stdout():
                        last_read = time.monotonic()
                        yield answer.read_stdout()
                    if self._closing.is_set() or time.monotonic() - last_read > _SILENCE_SECONDS:
                        raise ClusterError(f"pod {pod} sends no more of the run's files", passing=True)
                errors = answer.read_stderr().decode(errors="replace")
                ending = answer.read_channel(_ENDING)
        except (ApiException, websocket.WebSocketException, OSError) as error:
            raise ClusterError(f"pod {pod} does not give the run's files: {error}", passing=True) from None
        if b'"Success"' not in ending:  # without an ending the connection broke
            reason = errors or ending.decode(errors="replace") or "the connection broke"
            raise ClusterError(
                f"pod {pod} could not read the run's files: {reason[-500:]}", passing=not errors
            )

    def _as_json(self, resource: Any) -> dict[str, Any]:
        """An object of the client as the API server wrote it."""
        written: dict[str, Any] = self._jobs.client.sanitize_for_serialization(resource)  # type: ignore[no-untyped-call]
        return written


def _pod(job: Job, learner: dict[str, Any], location: str) -> dict[str, Any]:
    name, (_, claim, path) = job["metadata"]["name"], location.split("/", 2)
    (container,) = (candidate for candidate in learner["containers"] if candidate["name"] == "learner")
    kept = {field: learner[field] for field in _OF_THE_LEARNERS_POD if field in learner}
    own = {field: container[field] for field in ("image", "imagePullPolicy", "securityContext")}
    owner = {field: job[field] for field in ("apiVersion", "kind")}
    return {
        "metadata": {
            "generateName": f"{name}-files-",
            "labels": {"app.kubernetes.io/managed-by": "nitro-experiment"},
            "ownerReferences": [{**owner, "name": name, "uid": job["metadata"]["uid"]}],
        },
        "spec": {
            **kept,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LIFE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    **own,
                    "name": _CONTAINER,
                    "command": ["sleep", str(_LIFE_SECONDS)],
                    "resources": _RESOURCES,
                    "volumeMounts": [
                        {"name": "claim", "mountPath": _MOUNT, "subPath": path, "readOnly": True}
                    ],
                }
            ],
            "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}],
        },
    }


def _unpack(packed: IO[bytes], folder: RunDir) -> None:
    """Raises ClusterError where the archive is cut off or damaged."""
    try:
        with tarfile.open(fileobj=packed, mode="r:gz") as archive:
            archive.extractall(folder.path, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise ClusterError(f"the run's files arrived damaged: {error}", passing=True) from None


def _why(status: Mapping[str, Any]) -> str:
    """Why a pod does not run, as far as it says so."""
    states = [container.get("state", {}).get("waiting") for container in status.get("containerStatuses", [])]
    reasons = [f"{state.get('reason')}: {state.get('message')}" for state in states if state]
    unmet = [condition for condition in status.get("conditions", []) if condition["status"] != "True"]
    reasons += [condition["message"] for condition in unmet if condition.get("message")]
    return "; ".join(reasons) or f"its phase is {status['phase']}"
