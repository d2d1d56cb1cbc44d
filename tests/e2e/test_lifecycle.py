"""Suspend and resume, deletion, time to live: nothing is left running, and nothing is lost."""

from __future__ import annotations

from harness import Cluster, Object, phase_of, round_of
from jobs import ROUNDS, hopper
from namespaces import Start
from run_outcome import LocalRun, on_cluster


def test_suspend_releases_all_pods_and_resume_goes_on(
    cluster: Cluster, namespace: str, start: Start, reference: LocalRun
) -> None:
    start("paused", hopper())
    cluster.until_round(namespace, "paused", 4)
    cluster.patch_job(namespace, "paused", {"suspend": True})
    suspended = cluster.until_phase(namespace, "paused", "Suspended")
    cluster.until_no_pods(namespace, "paused", "learner")
    cluster.until_no_pods(namespace, "paused", "actor")
    before = round_of(cluster.job(namespace, "paused"))
    assert 4 <= round_of(suspended) <= before < ROUNDS

    # It goes on with other pods, to the same result.
    more = {"resources": {"limits": {"memory": "300Mi"}}}
    cluster.patch_job(namespace, "paused", {"suspend": False, "actor": more})

    def goes_on(job: Object) -> bool:
        assert round_of(job) >= before, "rounds were done again"
        return round_of(job) > before

    cluster.until_job(namespace, "paused", goes_on, what="a round after the resume")
    cluster.until_phase(namespace, "paused", "Succeeded")
    assert (
        cluster.job(namespace, "paused")["spec"]["actor"]["resources"]["limits"]
        == more["resources"]["limits"]
    )
    on_cluster(cluster, namespace, "paused").assert_equals(reference.outcome)


def test_delete_leaves_nothing_behind(cluster: Cluster, namespace: str, start: Start) -> None:
    start("gone", hopper(rounds=1000))
    cluster.until_round(namespace, "gone", 2)
    kinds = {child.partition("/")[0] for child in cluster.children(namespace)}
    assert kinds >= {"Job", "Pod", "PersistentVolumeClaim", "Service", "Revision", "NetworkPolicy"}
    cluster.jobs.delete(namespace=namespace, name="gone")
    cluster.until_empty(namespace)


def test_a_finished_job_goes_after_its_time_to_live(cluster: Cluster, namespace: str, start: Start) -> None:
    start("short", hopper(rounds=1, ttlSecondsAfterFinished=5))
    seen = []

    def gone(jobs: list[Object]) -> bool:
        seen.extend(phase_of(job) for job in jobs)
        return bool(seen) and not jobs

    cluster.until(cluster.jobs, gone, namespace=namespace, what="the job is deleted", name="short")
    assert seen[-1] == "Succeeded"
    cluster.until_no_pods(namespace, "short", "learner")
