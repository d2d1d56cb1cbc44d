"""A Lambda job on a cluster without Knative: the result is a local run's, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Cluster
from jobs import MAX_ACTORS, ROUNDS, hopper
from lambda_service import lambda_service, without_knative
from namespaces import Start
from run_outcome import LocalRun, on_cluster

from aws_support import CREDENTIALS, lambda_backend, secret

Report = Callable[[str, str], None]

GB_SECOND, REQUEST = 1.66667e-5, 2e-7
"""Dollars; the defaults of spec.pricing."""


def test_a_lambda_job_needs_no_knative_and_its_result_is_a_local_runs(
    cluster: Cluster, namespace: str, start: Start, reference: LocalRun, report: Report
) -> None:
    with without_knative(cluster), lambda_service(cluster) as service:
        cluster.create(secret("aws", **CREDENTIALS), namespace)
        backend = lambda_backend(service.aws, endpointUrl=service.url, reservedConcurrency=MAX_ACTORS)
        start("hopper", hopper(backend=backend))
        job = cluster.until_phase(namespace, "hopper", "Succeeded")

        status, name = job["status"], f"nitro-{namespace}_hopper"
        assert status["training"]["round"] == ROUNDS
        assert [entry["actors"] for entry in status["training"]["history"]] == reference.outcome.actors
        on_cluster(cluster, namespace, "hopper").assert_equals(reference.outcome)
        assert cluster.pods(namespace, "hopper", "actor") == []

        bills = service.bills()
        billed = sum(GB_SECOND * 0.25 * bill["billed_ms"] / 1e3 + REQUEST for bill in bills)
        assert status["cost"]["actors"] == pytest.approx(billed, rel=1e-3, abs=1e-6)
        report("bills.txt", f"{len(bills)} invocations, {billed:.6f} dollars by the service's account")

        assert "Concurrency" not in service.aws.client().get_function(FunctionName=name), "let go at the end"
        cluster.delete("nitro.dev/v1alpha1", "NitroTrainingJob", namespace, "hopper")
        cluster.until(cluster.jobs, lambda jobs: not jobs, namespace=namespace, what="the job is gone")
        assert service.aws.functions() == []
    for child in cluster.kind("v1", "Event").get(namespace=namespace).items:
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(child)
