"""A job from `nitro submit` to its end: actors follow the score, and the result is that of a local run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from actor_pods import oracle_of, replayed
from harness import PATIENCE_SECONDS, Cluster, Object, job_of
from jobs import INITIAL_ACTORS, MAX_ACTORS, MIN_ACTORS, ROUNDS, hopper
from namespaces import Start
from recording import recording
from run_outcome import LocalRun, on_cluster
from volumes import Disks

Report = Callable[[str, str], None]


def test_actor_pods_follow_the_score_and_the_result_is_a_local_runs(
    cluster: Cluster, namespace: str, disks: Disks, reference: LocalRun, report: Report, tmp_path: Path
) -> None:
    disks.provide(namespace, "hopper-checkpoint")
    (tmp_path / "hopper.yaml").write_text(yaml.safe_dump(job_of("hopper", hopper())))
    with recording(cluster, namespace, "hopper") as record:
        submit = ("submit", str(tmp_path / "hopper.yaml"), "--namespace", namespace, "--follow")
        shown = subprocess.Popen(
            [sys.executable, "-m", "nitro_learner", *submit], stdout=subprocess.PIPE, text=True
        )
        assert shown.stdout is not None
        assert shown.stdout.readline() == f"job hopper is in namespace {namespace}\n"
        job = cluster.until_phase(namespace, "hopper", "Succeeded")
        cluster.until_no_pods(namespace, "hopper", "actor")
    report("rounds.txt", record.table())

    table, _ = shown.communicate(timeout=PATIENCE_SECONDS)
    assert shown.returncode == os.EX_OK
    rounds = [line.split()[0] for line in table.splitlines() if f"/{ROUNDS} " in line]
    assert rounds == [f"{number}/{ROUNDS}" for number in range(1, ROUNDS + 1)]
    status = job["status"]
    assert status["progress"] == {"percent": 100, "by": "rounds", "etaSeconds": 0}
    assert status["training"]["round"] == ROUNDS
    history = [entry["actors"] for entry in status["training"]["history"]]
    assert history == reference.outcome.actors
    assert history[0] == INITIAL_ACTORS
    assert all(MIN_ACTORS <= actors <= MAX_ACTORS for actors in history)
    assert len(set(history)) > 2, "the score never moved: this run shows nothing"

    assert record.revisions == {"hopper-actors-v1"}, "rounds must not make Revisions"
    assert len(record.learner_jobs) == len(record.learner_pods) == 1
    # Actors are held between rounds, so the Revision's scale is what some round requested; fewer while pods
    # that are going take the platform's room, and one more while none answers.
    asked = [*history, int(reference.outcome.rounds[-1]["next_actors"]), INITIAL_ACTORS + 1]
    assert all(scale == 0 or MIN_ACTORS <= scale <= max(asked) for scale in record.scales)
    assert max(record.scales) > INITIAL_ACTORS, "the Revision did not follow"
    # Where a round lasts about as long as a pod starts and drains, as on a busy machine, the rule lets go
    # more often than an oracle would.
    needed = max(oracle_of(status).started, replayed(status, job).started)
    assert status["actors"]["started"] <= 2 * needed, "pods come and go with the requests"
    # How many come up before a round is over is the node's speed; more than in the first round, at least.
    assert max(one.running for one in record.seen) > INITIAL_ACTORS
    assert all(one.granted <= cluster.max_actors for one in record.seen)
    assert record.scales[-1] == 0, "the actors must be let go at the end"

    assert status["actors"]["podSeconds"] > 0
    assert status["cost"]["total"] > 0
    assert status["checkpoint"]["round"] == ROUNDS
    on_cluster(cluster, namespace, "hopper").assert_equals(reference.outcome)


def test_the_environment_of_a_job_that_lasts_is_checked(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("checked", hopper(rounds=10_000))
    checked = cluster.until_says(namespace, "checked", "EnvironmentSound", "nothing is wrong with it")
    assert checked["status"] == "True"


def test_two_jobs_share_the_platform(cluster: Cluster, namespace: str, start: Start, report: Report) -> None:
    limit = cluster.max_actors
    each = (3, limit // 2, limit)
    assert limit <= 64, f"platform.maxActors is {limit}: more pods than this test should start"
    rounds = 8
    spec = {seed: hopper(rounds=rounds, actors=each, seed=seed) for seed in (1, 2)}
    with recording(cluster, namespace, "one") as one, recording(cluster, namespace, "two") as two:
        start("one", spec[1])
        start("two", spec[2])
        granted: dict[str, int] = {}
        sums = []

        def both(jobs: list[Object]) -> bool:
            for job in jobs:
                granted[job["metadata"]["name"]] = (job.get("status", {}).get("actors") or {}).get(
                    "granted"
                ) or 0
            sums.append(sum(granted.values()))
            assert sums[-1] <= limit, granted
            return len(jobs) == 2 and all(job.get("status", {}).get("phase") == "Succeeded" for job in jobs)

        cluster.until(cluster.jobs, both, namespace=namespace, what="both jobs succeed")
    report("one.txt", one.table())
    report("two.txt", two.table())
    asked = [max((seen.requested for seen in record.seen), default=0) for record in (one, two)]
    assert sum(asked) > limit, f"together they asked for {asked} of {limit}: this run shows nothing"
    assert max(sums) > 0.7 * limit, "one job's leave was not given to the other"
    for name in ("one", "two"):
        assert cluster.job(namespace, name)["status"]["training"]["round"] == rounds
