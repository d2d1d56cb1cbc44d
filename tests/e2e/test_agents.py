"""Several agents on a cluster: they share policies when they should, and the result equals a local run."""

from __future__ import annotations

import json
from pathlib import Path

import run_outcome
import volumes
from harness import Cluster, Object
from jobs import spread
from namespaces import Start
from run_outcome import on_cluster

TOGGLES = [4, 8]
"""Sharing toggles whenever its window of 4 rounds is full, but not after the last round."""


def toggles(lines: str) -> list[Object]:
    """The lines of sharing.jsonl."""
    return [json.loads(line) for line in lines.splitlines()]


def test_agents_share_policies_at_known_rounds_and_the_result_is_a_local_runs(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    start("spread", spread())
    with run_outcome.local(spread(), tmp_path) as reference:
        job = cluster.until_phase(namespace, "spread", "Succeeded")
        on_cluster(cluster, namespace, "spread").assert_equals(reference.outcome)

    claim = "spread-checkpoint"
    (shared,) = volumes.read(cluster, namespace, claim, "spread-*/sharing.jsonl")
    assert shared == (tmp_path / "run" / "sharing.jsonl").read_bytes()
    (policies,) = volumes.read(cluster, namespace, claim, "spread-*/policies.csv")
    assert policies == (tmp_path / "run" / "policies.csv").read_bytes()
    told = toggles(shared.decode())
    assert [toggle["round"] for toggle in told] == TOGGLES
    assert [toggle["shared"] for toggle in told] == [True, False]

    status = job["status"]
    last = told[-1]["groups"]
    assert {one["name"]: one["agents"] for one in status["policies"]} == last
    assert status["sharing"]["toggles"] == len(TOGGLES)
    assert status["sharing"]["round"] == TOGGLES[-1]
    assert (status["sharing"]["groups"], status["sharing"]["shared"]) == (len(last), False)
    events = [event.to_dict() for event in cluster.kind("v1", "Event").get(namespace=namespace).items]
    reasons = {event["reason"] for event in events}
    assert {"SharingBegan", "SharingEnded"} <= reasons
