"""What the end-to-end tests do with a cluster: apply jobs, wait for conditions, cause trouble.

Nothing here sleeps in place of a condition: waits are watches of the API, which end when the condition holds.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.resource import Resource
from urllib3.exceptions import HTTPError

Object = dict[str, Any]
Found = TypeVar("Found")

API_VERSION, KIND = "nitro.dev/v1alpha1", "NitroTrainingJob"
SERVING = "serving.knative.dev/v1"
KNATIVE = "knative-serving"
"""The namespace of Knative's own programs."""
PATIENCE_SECONDS = 400.0
"""How long a condition is waited for. Only a broken cluster takes it: how fast one is, no test asserts."""
PASSING = (0, 410, 429, 500, 502, 503, 504)
"""Statuses of an API server that is being restarted, or that forgot the version that a watch began at."""
OF_EVERY_NAMESPACE = {"ServiceAccount": "default", "ConfigMap": "kube-root-ca.crt"}
"""What the cluster puts into a namespace, some time after it was made."""


class LateError(AssertionError):
    """A condition did not hold in time."""


class Cluster:
    """The cluster of the current KUBECONFIG, with an installed operator."""

    def __init__(self, release: str, namespace: str) -> None:
        config.load_kube_config()
        self.release, self.namespace = release, namespace
        self.operator = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=operator"
        self.api = client.ApiClient()
        self.core = client.CoreV1Api(self.api)
        self.dynamic = DynamicClient(self.api)
        deployments = client.AppsV1Api(self.api).list_namespaced_deployment(
            namespace, label_selector=self.operator
        )
        assert deployments.items, (
            f"no operator of release {release} in {namespace}: run scripts/install first"
        )
        container = deployments.items[0].spec.template.spec.containers[0]
        env = {entry.name: entry.value for entry in container.env}
        self.max_actors = int(env["NITRO_PLATFORM_MAX_ACTORS"])
        self.images = {name: env[f"NITRO_{name.upper()}_IMAGE"] for name in ("actor", "learner", "redis")}
        self.images["operator"] = container.image
        self.images["learner-cpu"] = env.get("NITRO_LEARNER_CPU_IMAGE", self.images["learner"])

    def learner_with(self, *extras: str) -> str:
        """The learner's image that was built with these extras."""
        return self.images["learner"].replace("nitro-learner:", f"nitro-learner-{'-'.join(extras)}:")

    # ------------------------------------------------------------ objects

    def kind(self, api_version: str, kind: str) -> Resource:
        return self.dynamic.resources.get(api_version=api_version, kind=kind)

    @cached_property
    def jobs(self) -> Resource:
        return self.kind(API_VERSION, KIND)

    def create(self, body: Object, namespace: str | None = None) -> Object:
        kind = self.kind(body["apiVersion"], body["kind"])
        found: Object = kind.create(body=body, namespace=namespace).to_dict()
        return found

    def create_job(self, namespace: str, name: str, spec: Object) -> Object:
        return self.create(job_of(name, spec), namespace)

    def job(self, namespace: str, name: str) -> Object:
        found: Object = self.jobs.get(namespace=namespace, name=name).to_dict()
        return found

    def patch_job(self, namespace: str, name: str, spec: Object) -> None:
        merge = "application/merge-patch+json"
        self.jobs.patch(namespace=namespace, name=name, body={"spec": spec}, content_type=merge)

    def delete(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        self.kind(api_version, kind).delete(namespace=namespace, name=name)

    def pods(self, namespace: str, name: str, component: str) -> list[Object]:
        found = self.kind("v1", "Pod").get(namespace=namespace, label_selector=of_component(name, component))
        return [pod.to_dict() for pod in found.items]

    def kinds(self) -> Iterator[Resource]:
        """Every kind of namespaced object that can be listed and watched; events left out."""
        for kind in self.dynamic.resources.search(namespaced=True):
            lasting = {"list", "watch"} <= set(getattr(kind, "verbs", None) or ())
            if lasting and kind.kind != "Event" and not kind.kind.endswith("List"):
                yield kind

    def children(self, namespace: str) -> list[str]:
        """Every object of a namespace: "Kind/name"; events left out."""
        return sorted(
            {
                f"{kind.kind}/{item.metadata.name}"
                for kind in self.kinds()
                for item in kind.get(namespace=namespace).items
            }
        )

    # ------------------------------------------------------------ waiting

    def until(
        self,
        kind: Resource,
        check: Callable[[list[Object]], Found | None],
        *,
        namespace: str | None,
        timeout: float = PATIENCE_SECONDS,
        what: str,
        selector: str | None = None,
        name: str | None = None,
    ) -> Found:
        """Watch the objects of a kind until `check` of them is true, and return what it gave.

        Raises:
            LateError: it was not within `timeout` seconds; the text has `what` and the last objects.
        """
        items: dict[str, Object] = {}
        end = time.monotonic() + timeout
        for items in self.follow(kind, namespace, end=lambda: end, selector=selector, name=name):
            found = check(list(items.values()))
            if found:
                return found
        last = [{"name": one["metadata"]["name"], "status": one.get("status")} for one in items.values()]
        raise LateError(
            f"{what}: not within {timeout:.0f} s; last seen: {json.dumps(last, default=str)[:4000]}"
        )

    def follow(
        self,
        kind: Resource,
        namespace: str | None,
        *,
        end: Callable[[], float],
        selector: str | None = None,
        name: str | None = None,
    ) -> Iterator[dict[str, Object]]:
        """All matching objects by uid, now and after every change, until the monotonic time `end()`.

        No change is left out, unless the watch breaks, as when the API server is restarted: then a new list
        follows.
        """
        narrow = {"namespace": namespace, "label_selector": selector}
        if name:
            narrow["field_selector"] = f"metadata.name={name}"
        items: dict[str, Object] = {}
        version: str | None = None
        while time.monotonic() < end():
            try:
                if version is None:
                    listed = kind.get(**narrow)
                    items = {item.metadata.uid: item.to_dict() for item in listed.items}
                    version = listed.metadata.resourceVersion
                yield items
                left = int(max(1, min(30, end() - time.monotonic())))
                for event in kind.watch(**narrow, resource_version=version, timeout=left):
                    meta = event["raw_object"]["metadata"]
                    version = meta["resourceVersion"]
                    if event["type"] == "DELETED":
                        items.pop(meta["uid"], None)
                    else:
                        items[meta["uid"]] = event["raw_object"]
                    yield items
            except (ApiException, HTTPError, OSError) as error:
                if isinstance(error, ApiException) and error.status not in PASSING:
                    raise
                version = None
                time.sleep(0.5)  # there is nothing to watch while the API server is away

    def until_job(
        self,
        namespace: str,
        name: str,
        check: Callable[[Object], Found | None],
        *,
        what: str,
        timeout: float = PATIENCE_SECONDS,
    ) -> Found:
        """Watch one job until `check` of it is true. A job that fails ends the wait.

        Raises:
            LateError: not in time.
            AssertionError: the job failed, unless that was waited for, or is gone.
        """

        def one(jobs: list[Object]) -> Found | None:
            assert jobs, f"{what}: {name} is gone"
            found = check(jobs[0])
            if not found:
                assert phase_of(jobs[0]) != "Failed", f"{what}: {jobs[0]['status'].get('conditions')}"
            return found

        return self.until(self.jobs, one, namespace=namespace, timeout=timeout, what=what, name=name)

    def until_phase(
        self, namespace: str, name: str, phase: str, *, timeout: float = PATIENCE_SECONDS
    ) -> Object:
        def check(job: Object) -> Object | None:
            return job if phase_of(job) == phase else None

        return self.until_job(namespace, name, check, timeout=timeout, what=f"phase {phase}")

    def until_round(self, namespace: str, name: str, number: int) -> Object:
        def check(job: Object) -> Object | None:
            return job if round_of(job) >= number else None

        return self.until_job(namespace, name, check, what=f"round {number}")

    def until_says(self, namespace: str, name: str, *words: str) -> Object:
        """The condition of the job whose reason and message have all words, once there is one."""

        def check(jobs: list[Object]) -> Object | None:
            return says(jobs[0], *words)

        what = f"a condition that says {words}"
        return self.until(self.jobs, check, namespace=namespace, what=what, name=name)

    def until_no_pods(self, namespace: str, name: str, component: str) -> None:
        self.until(
            self.kind("v1", "Pod"),
            lambda pods: not pods,
            namespace=namespace,
            what=f"no {component} pods",
            selector=of_component(name, component),
        )

    def until_empty(self, namespace: str) -> None:
        """Nothing is left in a namespace but what the cluster puts into every one."""
        for kind in self.kinds():
            ours = OF_EVERY_NAMESPACE.get(kind.kind)

            def only(found: list[Object], allowed: str | None = ours) -> bool:
                return all(item["metadata"]["name"] == allowed for item in found)

            self.until(kind, only, namespace=namespace, what=f"no {kind.kind} is left")

    def until_operator_ready(self) -> None:
        self.until(
            self.kind("v1", "Pod"),
            lambda pods: any(is_ready(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")),
            namespace=self.namespace,
            what="the operator is ready",
            selector=self.operator,
        )

    def kill(self, namespace: str, selector: str) -> None:
        """Delete pods with no time to say goodbye."""
        self.core.delete_collection_namespaced_pod(namespace, label_selector=selector, grace_period_seconds=0)


def job_of(name: str, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def of_component(job: str, component: str) -> str:
    return f"nitro.dev/job={job},app.kubernetes.io/component={component}"


def training(job: Object) -> Object:
    found: Object = job.get("status", {}).get("training") or {}
    return found


def round_of(job: Object) -> int:
    found: int = training(job).get("round") or 0
    return found


def phase_of(job: Object) -> str:
    found: str = job.get("status", {}).get("phase") or ""
    return found


def says(job: Object, *words: str) -> Object | None:
    """The first condition whose reason and message have all words, in upper or lower case."""
    for one in job.get("status", {}).get("conditions") or []:
        text = f"{one.get('reason', '')} {one.get('message', '')}".lower()
        if all(word.lower() in text for word in words):
            found: Object = one
            return found
    return None


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def kubectl(*arguments: str, check: bool = True) -> str:
    """Output of kubectl, which must succeed; without `check` also what it says about its error."""
    done = subprocess.run(["kubectl", *arguments], capture_output=True, text=True, timeout=120)
    said = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    assert done.returncode == 0 or not check, f"kubectl {arguments[0]}: {said}"
    return said
