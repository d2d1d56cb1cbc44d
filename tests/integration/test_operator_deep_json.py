"""A job whose JSON is nested deeper than Python reads, stored before the CRD had a bound, harms no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import OperatorProcess, eventually, install_knative, job

LEVELS = 1500
"""More than Python's recursion allows."""


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str) -> Iterator[Cluster]:
    install_knative(apiserver)
    yield Cluster(apiserver, namespace)
    # Here, because the tests' own clean-up reads what it deletes.
    apiserver.kubectl("-n", namespace, "delete", "ntj", "--all", "-o", "name", "--wait=false")


@pytest.fixture
def store(apiserver: ApiServer, cluster: Cluster) -> Callable[[str], None]:
    """Stores a manifest by a definition that lets anything through in kwargs, as the first release's did."""

    def store(manifest: str) -> None:
        def stored() -> bool:
            said = cluster.kubectl("apply", "--server-side", "-f", "-", input=manifest, check=False)
            return "serverside-applied" in said

        with apiserver.changed_schema(_drop_bounds):
            eventually(stored, what="a deep object is accepted")

    return store


def _drop_bounds(schema: Any) -> None:
    spec = schema["properties"]["spec"]
    environment = spec["properties"]["environment"]
    environment["properties"]["kwargs"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for part in (spec, environment):
        rules = part.get("x-kubernetes-validations", [])
        part["x-kubernetes-validations"] = [rule for rule in rules if "kwargs" not in rule["rule"]]


def deep_job(name: str, opening: str, closing: str, **spec: Any) -> str:
    """A manifest; it is put together as text, because Python cannot write it either."""
    environment = {"id": "Hopper-v5", "kwargs": {"deep": "HERE"}}
    text = json.dumps(job(name, environment=environment, **spec))
    return text.replace('"HERE"', opening * LEVELS + "1" + closing * LEVELS)


def failure(cluster: Cluster, name: str) -> str:
    path = (
        '{.status.conditions[?(@.type=="Failed")].reason}: {.status.conditions[?(@.type=="Failed")].message}'
    )
    return str(cluster.kubectl("get", "ntj", name, "-o", f"jsonpath={path}"))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_an_operator_starts_beside_a_job_nested_too_deeply_and_serves_the_others(
    apiserver: ApiServer,
    cluster: Cluster,
    store: Callable[[str], None],
    tmp_path: Path,
    opening: str,
    closing: str,
) -> None:
    store(deep_job("deep", opening, closing))
    with OperatorProcess(apiserver.kubeconfig, tmp_path / "operator.log") as operator:
        cluster.apply(job("well"))
        eventually(lambda: cluster.get("job", "well-learner"), what="the other job's learner")
        told = eventually(lambda: "InvalidSpec: " in failure(cluster, "deep") and failure(cluster, "deep"))
        assert "64 levels" in told
        assert "spec.environment.kwargs" in told
        assert cluster.get("job", "deep-learner") is None
        assert f"{cluster.namespace}/deep" in operator.log()

        # The same by the watch: an object that changes, one that is new, one that goes.
        store(deep_job("late", opening, closing))
        # By its status: the API server compares no mapping with its old self below the levels that the schema
        # has, so it takes every other change of the object for a new mistake.
        touched = json.dumps({"status": {"training": {"round": 1}}})
        cluster.kubectl("patch", "ntj", "deep", "--subresource=status", "--type=merge", "-p", touched)
        eventually(lambda: "InvalidSpec: " in failure(cluster, "late"))
        cluster.kubectl("delete", "ntj", "deep", "-o", "name", "--wait=false")
        gone = f'nitro_job_status_phase{{job_name="deep",namespace="{cluster.namespace}"'
        eventually(lambda: operator.metrics() and gone not in operator.metrics())
        cluster.apply(job("after"))
        eventually(lambda: cluster.get("job", "after-learner"), what="a learner after all that")
        assert operator.get(operator.health_port, "/healthz"), operator.log()[-3000:]
