"""The operator is killed again and again, the API server is restarted: the run does not notice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from harness import PATIENCE_SECONDS, Cluster
from jobs import ROUNDS, hopper
from namespaces import Start
from recording import recording
from run_outcome import Outcome, on_cluster

Report = Callable[[str, str], None]
RESTART = os.environ.get("NITRO_E2E_RESTART_APISERVER")
"""A shell command; without it the API server stays."""
KILLS = (2, 4, 6)
RESTART_AT = 9


def test_neither_operator_nor_api_server_is_missed(
    cluster: Cluster, namespace: str, start: Start, reference: Outcome, report: Report
) -> None:
    with recording(cluster, namespace, "hopper") as record:
        start("hopper", hopper())
        for number in KILLS:
            cluster.until_round(namespace, "hopper", number)
            cluster.kill_operator()
        if RESTART:
            cluster.until_round(namespace, "hopper", RESTART_AT)
            subprocess.run(["bash", "-c", RESTART], check=True, timeout=PATIENCE_SECONDS)
        job = cluster.until_phase(namespace, "hopper", "Succeeded")
    report("rounds.txt", record.table())
    assert job["status"]["training"]["round"] == ROUNDS
    assert len(record.learner_jobs) == len(record.learner_pods) == 1, "a second child was made"
    assert record.revisions == {"hopper-actors-v1"}
    on_cluster(cluster, namespace, "hopper").assert_equals(reference)
