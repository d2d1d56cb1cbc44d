"""Jobs of a cluster, as a user may read, make, change and remove them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import urllib3
from kubernetes.client import ApiClient, CoreV1Api, VersionApi
from kubernetes.client.exceptions import ApiException

from nitro_api import GROUP, PLURAL, VERSION, NitroTrainingJob
from nitro_api.loading.yamlfile import UNTYPED
from nitro_api.spec.free_json import marked
from nitro_learner.cluster.api import TIMEOUT_SECONDS, NoCluster, backoff, connect, current_namespace

Job = dict[str, Any]
Answer = TypeVar("Answer")

_PASSING = (0, 408, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
LOOK_SECONDS = 1.0
_MOST_FAILURES = 10


class ClusterError(Exception):
    """The cluster does not return what was asked for.

    Attributes:
        status: of the API server's answer; 0 where there is none.
        no_such_job: whether it answered that there is no job of that name.
        passing: whether the same request may succeed later.
    """

    def __init__(
        self, message: str, *, status: int = 0, no_such_job: bool = False, passing: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.no_such_job = no_such_job
        self.passing = passing


class NamespaceJobs:
    """The jobs of one namespace. Blocking: for threads.

    Args:
        namespace: their namespace; that of the context if none is given.
        context: of the kubeconfig; the current one if none is given.

    Every method raises ClusterError where the API server does not do what is asked.
    """

    def __init__(self, namespace: str | None, context: str | None = None) -> None:
        self.context = context
        self.connect()
        self.namespace = namespace or current_namespace(context)

    def connect(self) -> None:
        """Read the user's configuration, and with it credentials that may have expired, anew."""
        with explained():
            self._api = connect(self.context)

    @property
    def client(self) -> ApiClient:
        """The connection, for other kinds of objects."""
        client: ApiClient = self._api.api_client
        return client

    def cluster_version(self) -> str:
        """The version of the API server, such as v1.34.4."""
        with explained():
            version = VersionApi(self.client).get_code(_request_timeout=TIMEOUT_SECONDS)
        return str(version.git_version)

    def list(self) -> list[Job]:
        """All of them."""
        jobs: list[Job] = self._call("list_namespaced_custom_object")["items"]
        return jobs

    def get(self, name: str) -> Job:
        """One of them."""
        return self._call("get_namespaced_custom_object", name)

    def find(self, name: str) -> Job | None:
        """The job; None where there is none of that name."""
        try:
            return self.get(name)
        except ClusterError as error:
            if error.no_such_job:
                return None
            raise

    def create(self, job: Mapping[str, Any], *, strict: bool = False) -> None:
        """Make a job. One that has its name already stays as it is: the answer then has the status 409.

        Args:
            strict: whether a field that the cluster does not know is refused; else it is dropped.
        """
        validation = "Strict" if strict else "Warn"
        self._call("create_namespaced_custom_object", body=dict(job), field_validation=validation)

    def bring(self, config_map: Mapping[str, Any]) -> None:
        """Make a ConfigMap beside the jobs. One that has its name already stays as it is."""
        body: Any = dict(config_map)
        try:
            with _passed_over(409), explained():
                CoreV1Api(self.client).create_namespaced_config_map(
                    self.namespace, body, _request_timeout=TIMEOUT_SECONDS
                )
        except ClusterError as error:
            if error.status != 403:
                raise
            told = (
                f"you may not make ConfigMaps in namespace {self.namespace}, and one holds the job's code. "
                f"Ask for the right to create configmaps in it, or build an image with the code. {error}"
            )
            raise ClusterError(told, status=403) from None

    def change(self, name: str, spec: Mapping[str, Any]) -> None:
        """Change fields of a job's spec."""
        kind = "application/merge-patch+json"
        self._call("patch_namespaced_custom_object", name, body={"spec": dict(spec)}, _content_type=kind)

    def delete(self, job: Job) -> None:
        """Remove this job, if it is still there. Another one that has its name by now stays."""
        only = {"preconditions": {"uid": job["metadata"]["uid"]}}
        with _passed_over(404, 409):
            self._call("delete_namespaced_custom_object", job["metadata"]["name"], body=only)

    def _call(self, call: str, name: str | None = None, **arguments: Any) -> Job:
        where = (GROUP, VERSION, self.namespace, PLURAL, *([name] if name else []))
        with explained(name, self.namespace):
            answer: Job = getattr(self._api, call)(*where, _request_timeout=TIMEOUT_SECONDS, **arguments)
        return answer


def get_job(name: str, namespace: str | None) -> Job:
    """One job; of the current namespace if none is given.

    Raises:
        ClusterError: there is none, or the cluster does not answer.
    """
    return NamespaceJobs(namespace).get(name)


def list_jobs(namespace: str | None, context: str | None = None) -> list[Job]:
    """All jobs of a namespace, or of the cluster.

    Raises:
        ClusterError: the cluster does not answer, or does not let this user.
    """
    if namespace:
        return NamespaceJobs(namespace, context).list()
    try:
        with explained():
            answer: Any = connect(context).list_cluster_custom_object(
                GROUP, VERSION, PLURAL, _request_timeout=TIMEOUT_SECONDS
            )
    except ClusterError as error:
        if error.status == 403:
            message = "you may not list the jobs of all namespaces; name one with --namespace"
            raise ClusterError(message, status=403) from None
        raise
    jobs: list[Job] = answer["items"]
    return jobs


@contextmanager
def explained(job: str | None = None, namespace: str = "") -> Iterator[None]:
    """Raise ClusterError where the block's request fails."""
    try:
        yield
    except NoCluster as error:
        raise ClusterError(str(error)) from None
    except ApiException as error:
        status, told = int(error.status or 0), _told(error)
        message = f"the API server answered {status}: {told or error.reason}"
        if status == 401:
            message += "; log in to the cluster again"
        if status == 404 and not told:
            message = "the cluster knows no NitroTrainingJob; install Nitro there"
        elif status == 404 and job:
            message = f"there is no job {job} in namespace {namespace}; `kubectl get ntj -A` lists them"
        raise ClusterError(
            message,
            status=status,
            no_such_job=status == 404 and bool(told and job),
            passing=status in _PASSING,
        ) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterError(f"the API server does not answer: {error}", passing=True) from None


def object_of(job: NitroTrainingJob) -> Job:
    """The object that is sent to the API server: the job as it is given, with its floats marked."""
    data = job.model_dump(by_alias=True, exclude_unset=True, exclude={"status"})
    kept = ("name", "labels", "annotations")
    data["metadata"] = {name: value for name, value in data["metadata"].items() if name in kept}
    mark_floats(data["spec"])
    return data


def mark_floats(spec: dict[str, Any]) -> None:
    """Write `{$float: 1}` in place of 1.0 where a job's own constructors get it: the API server stores 1."""
    for _, section, name in UNTYPED:
        parent = spec.get(section) or {}
        if name in parent:
            parent[name] = marked(parent[name])


def why(job: Mapping[str, Any], kind: str) -> str:
    """What a condition of the job says; empty where it has no such condition."""
    conditions = (job.get("status") or {}).get("conditions") or []
    found: Mapping[str, Any] = next((entry for entry in conditions if entry["type"] == kind), {})
    return str(found.get("message") or found.get("reason") or "")


@contextmanager
def _passed_over(*statuses: int) -> Iterator[None]:
    """Go on where the API server answers with one of these statuses."""
    try:
        yield
    except ClusterError as error:
        if error.status not in statuses:
            raise


def _told(error: ApiException) -> str:
    """What the API server says, which is more than the reason: a rule that a job breaks, a quota. Empty where
    it does not know the path at all."""
    with suppress(ValueError, TypeError):
        answer = json.loads(error.body or "")
        if isinstance(answer, dict):
            return str(answer.get("message") or "")
    return ""


def asked_again(jobs: NamespaceJobs, request: Callable[[], Answer]) -> Iterator[Answer]:
    """The answers to a request that is made about every second. Blocking, and without an end.

    An API server that does not answer for a moment is asked again, and one that refuses old credentials.

    Raises:
        ClusterError: it refuses the request, or has not answered ten times in a row.
    """
    failures = 0
    while True:
        try:
            answer = request()
        except ClusterError as error:
            failures += 1
            if error.status == 401 and failures == 1:
                jobs.connect()
            elif not error.passing or failures >= _MOST_FAILURES:
                raise
            time.sleep(backoff(failures))
            continue
        failures = 0
        yield answer
        time.sleep(LOOK_SECONDS)


def looks(jobs: NamespaceJobs, name: str) -> Iterator[tuple[Job, list[dict[str, Any]]]]:
    """The job and its actor pods, again and again; see `asked_again`."""
    return asked_again(jobs, lambda: (jobs.get(name), _pods(jobs, name)))


def _pods(jobs: NamespaceJobs, name: str) -> list[dict[str, Any]]:
    """As the API server has them; from its cache, which costs it little."""
    with explained():
        answer: Any = CoreV1Api(jobs.client).list_namespaced_pod(
            jobs.namespace,
            label_selector=f"nitro.dev/job={name},app.kubernetes.io/component=actor",
            resource_version="0",
            _request_timeout=TIMEOUT_SECONDS,
            _preload_content=False,
        )
    pods: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return pods
