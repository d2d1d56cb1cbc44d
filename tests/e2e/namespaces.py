"""Namespaces for tests: what happens in one is kept when its test fails, and nothing is left of it."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import Cluster, Object, kubectl
from kubernetes.client.exceptions import ApiException
from volumes import Disks

REPORTS = Path(os.environ.get("NITRO_E2E_REPORTS", "build/e2e"))
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
LEARNERS = "app.kubernetes.io/component=learner"
FAILED = pytest.StashKey[bool]()
"""Of a test that failed, and of its module."""
Start = Callable[[str, Object], Object]


@contextmanager
def new_namespace(
    cluster: Cluster, disks: Disks, node: pytest.Item | pytest.Collector
) -> Iterator[tuple[str, Start]]:
    """A namespace that admits only restricted pods, and start(name, spec), which starts a job in it.

    What happened in it is kept when a test of `node` fails.
    """
    name = f"e2e-{uuid.uuid4().hex[:6]}"
    cluster.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    )
    cluster.until_operator_ready()

    def start(job: str, spec: Object) -> Object:
        disks.provide(name, f"{job}-checkpoint")
        return cluster.create_job(name, job, spec)

    yield name, start
    if node.stash.get(FAILED, False):
        describe(cluster, name, REPORTS / node.name)
    # Pods would take the next test's CPU while they drain: the jobs go first, so that nobody makes new ones.
    cluster.jobs.delete(namespace=name, field_selector=f"metadata.namespace={name}")
    cluster.core.delete_namespace(name)
    cluster.core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
    try:
        cluster.until(
            cluster.kind("v1", "Pod"),
            lambda pods: not pods,
            namespace=name,
            what="an empty namespace",
        )
    finally:
        disks.remove(name)


def describe(cluster: Cluster, namespace: str, folder: Path) -> None:
    """Write all that kubectl can tell about a namespace and the operator, and print where."""
    shutil.rmtree(folder / "failure", ignore_errors=True)
    (folder / "failure").mkdir(parents=True)

    def keep(name: str, *arguments: str) -> None:
        (folder / "failure" / name).write_text(kubectl(*arguments, check=False))

    here = ("--namespace", namespace)
    kinds = "ntj,jobs,pods,services,pvc,ksvc,revisions,podautoscalers,resourcequotas"
    keep("objects.txt", "get", kinds, *here, "-o", "wide")
    keep("jobs.yaml", "get", "ntj", *here, "-o", "yaml")
    keep("describe.txt", "describe", "ntj,pods", *here)
    keep("events.txt", "get", "events", *here, "--sort-by=.lastTimestamp")
    for pod in cluster.core.list_namespaced_pod(namespace, label_selector=LEARNERS).items:
        ask = ("python", "-c", "import os, signal; os.kill(1, signal.SIGUSR1)")  # where it stands
        kubectl("exec", *here, pod.metadata.name, "-c", "learner", "--", *ask, check=False)
    operator = ("--namespace", cluster.namespace, "--selector", cluster.operator, "--tail=2000")
    keep("operator.log", "logs", *operator)
    keep("operator-previous.log", "logs", *operator, "--previous")
    for pod in cluster.core.list_namespaced_pod(namespace).items:
        for container in [*(pod.spec.init_containers or []), *pod.spec.containers]:
            file = f"{pod.metadata.name}.{container.name}.log"
            try:
                keep(file, "logs", *here, pod.metadata.name, "-c", container.name, "--tail=500")
            except ApiException:
                continue
    components = ("controller", "webhook", "autoscaler", "activator")
    for component in components:  # an actor that is not reached may be Knative's matter
        selector = ("--selector", f"app={component}", "--tail=2000")
        keep(f"knative-{component}.log", "logs", "--namespace", "knative-serving", *selector)
    print(f"what was seen of {namespace} is in {folder / 'failure'}")
    learner = ("--selector", LEARNERS, "-c", "learner", "--tail=40")
    print(kubectl("logs", *here, *learner, check=False)[-6000:])
    print(kubectl("describe", "ntj", *here, check=False)[-3000:])
