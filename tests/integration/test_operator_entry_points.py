"""The switch that forbids entry points, on a real API server."""

from __future__ import annotations

from pathlib import Path

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import OperatorProcess, eventually, install_knative, job

COMMANDS = {"entryPoint": "os:system"}


def test_a_platform_without_entry_points_stops_such_jobs_at_their_checkpoint(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    install_knative(apiserver)
    cluster = Cluster(apiserver, namespace)
    log = tmp_path / "operator.log"
    cluster.apply(job("before", environment=COMMANDS))
    with OperatorProcess(apiserver.kubeconfig, log):
        cluster.start_learner("before")
        cluster.start_knative("before")
        eventually(lambda: cluster.status("before").get("phase") == "Running", what="allowed by default")
    with OperatorProcess(apiserver.kubeconfig, log, NITRO_ENTRY_POINTS="false"):
        brings = {"env": [{"name": "PYTHONPATH", "value": "/brought"}]}
        cluster.apply(job("after", environment=COMMANDS), job("registered"), job("brings", actor=brings))
        cluster.apply(job("scales", scaling=COMMANDS), job("packed", code="0" * 64))
        eventually(lambda: cluster.get("job", "registered-learner"), what="a learner without an entry point")
        for name in ("before", "after"):
            eventually(
                lambda name=name: cluster.condition(name, "Ready").get("reason") == "EntryPointForbidden"
            )
            said = cluster.condition(name, "Ready")["message"]
            assert "spec.environment.entryPoint: 'os:system'" in said
            assert "platform.entryPoints" in said
            assert cluster.status(name)["phase"] == ("Stopping" if name == "before" else "Pending")
            assert cluster.condition(name, "Failed")["status"] == "False"
        eventually(lambda: cluster.condition("brings", "Ready").get("reason") == "EntryPointForbidden")
        assert "spec.actor.env" in cluster.condition("brings", "Ready")["message"]
        eventually(lambda: cluster.condition("scales", "Ready").get("reason") == "EntryPointForbidden")
        assert "spec.scaling.entryPoint: 'os:system'" in cluster.condition("scales", "Ready")["message"]
        eventually(lambda: cluster.condition("packed", "Ready").get("reason") == "EntryPointForbidden")
        assert "spec.code" in cluster.condition("packed", "Ready")["message"]
        assert cluster.get("job", "scales-learner") is None
        assert cluster.get("job", "after-learner") is None
        assert cluster.get("services.serving.knative.dev", "after-actors") is None
        eventually(lambda: cluster.scale("before") == ("0", "1"), what="its actors are released")
        cluster.collect_job("before")
        eventually(lambda: cluster.status("before")["phase"] == "Pending", what="its learner is gone")
        assert cluster.get("pvc", "before-checkpoint") is not None
    with OperatorProcess(apiserver.kubeconfig, log):
        eventually(lambda: cluster.get("job", "before-learner"), what="it continues when the switch is back")
        eventually(lambda: cluster.get("job", "after-learner"), what="and so does the other")
