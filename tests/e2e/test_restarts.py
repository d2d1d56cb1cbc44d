"""Operator, Knative and learner are killed, the API server is restarted: the result is a local run's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from harness import KNATIVE, PATIENCE_SECONDS, Cluster, of_component
from jobs import ROUNDS, hopper
from namespaces import Start
from recording import recording
from run_outcome import LocalRun, on_cluster

Report = Callable[[str, str], None]
RESTART = os.environ.get("NITRO_E2E_RESTART_APISERVER")
"""A shell command; without it the API server stays."""
KILLED = {2: "operator", 3: "activator", 4: "operator", 5: "controller", 6: "operator", 7: "autoscaler"}
"""By the round after which it is killed: the operator, or a program of Knative's."""
LEARNER_KILLED_AT = 8
RESTART_AT = 10


def test_nobody_who_is_killed_is_missed(
    cluster: Cluster, namespace: str, start: Start, reference: LocalRun, report: Report
) -> None:
    with recording(cluster, namespace, "hopper") as record:
        start("hopper", hopper())
        for number, who in KILLED.items():
            cluster.until_round(namespace, "hopper", number)
            if who == "operator":
                cluster.kill(cluster.namespace, cluster.operator)
            else:
                cluster.kill(KNATIVE, f"app={who}")
        cluster.until_round(namespace, "hopper", LEARNER_KILLED_AT)
        assert len(record.learner_pods) == 1, "the learner has noticed"
        cluster.kill(namespace, of_component("hopper", "learner"))
        if RESTART:
            cluster.until_round(namespace, "hopper", RESTART_AT)
            subprocess.run(["bash", "-c", RESTART], check=True, timeout=PATIENCE_SECONDS)
        job = cluster.until_phase(namespace, "hopper", "Succeeded")
    report("rounds.txt", record.table())
    assert job["status"]["training"]["round"] == ROUNDS
    assert len(record.learner_pods) > 1, "the learner was not killed: this run shows nothing"
    assert len(record.learner_jobs) == 1, "a second child was made"
    assert record.revisions == {"hopper-actors-v1"}
    on_cluster(cluster, namespace, "hopper").assert_equals(reference.outcome)
