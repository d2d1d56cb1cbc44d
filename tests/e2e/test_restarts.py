"""The operator is killed again and again, the API server is restarted: the run does not notice."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

import pytest
from harness import PATIENCE_SECONDS, Cluster, LateError, Object
from jobs import ROUNDS, hopper
from outcome import Outcome, on_cluster
from recording import recording

Start = Callable[[str, Object], Object]
Report = Callable[[str, str], None]
RESTART = os.environ.get("NITRO_E2E_RESTART_APISERVER")
KILL_SECONDS = 20


def test_the_operator_is_killed_every_20_seconds(
    cluster: Cluster, namespace: str, start: Start, reference: Outcome, report: Report
) -> None:
    kills = 0
    with recording(cluster, namespace, "hopper") as record:
        start("hopper", hopper())
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            try:
                job = cluster.until_phase(namespace, "hopper", "Succeeded", timeout=KILL_SECONDS)
                break
            except LateError:
                cluster.kill_operator()
                kills += 1
        else:
            pytest.fail("the job did not finish")
    report("rounds.txt", f"operator killed {kills} times\n{record.table()}")
    assert kills >= 2
    assert job["status"]["training"]["round"] == ROUNDS
    assert len(record.learner_jobs) == len(record.learner_pods) == 1, "a second child was made"
    assert record.revisions == {"hopper-actors-v1"}
    on_cluster(cluster, namespace, "hopper").assert_equals(reference)


@pytest.mark.skipif(not RESTART, reason="NITRO_E2E_RESTART_APISERVER, a shell command, is not set")
def test_the_api_server_is_restarted_in_mid_run(
    cluster: Cluster, namespace: str, start: Start, reference: Outcome
) -> None:
    start("hopper", hopper())
    cluster.until_round(namespace, "hopper", 3)
    subprocess.run(["bash", "-c", str(RESTART)], check=True, timeout=PATIENCE_SECONDS)
    job = cluster.until_phase(namespace, "hopper", "Succeeded")
    assert job["status"]["training"]["round"] == ROUNDS
    on_cluster(cluster, namespace, "hopper").assert_equals(reference)
