"""The evidence is of the present learner pod, and says when the next one starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.learner_diagnosis import learner_problem, starting
from nitro_operator.observation.learner_pods import LearnerPods, backoff
from nitro_operator.observation.observed import Observed
from operator_objects import RUNNING, learner_job, make_job, pod, seen, terminated

Object = dict[str, Any]

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
EVICTION: Object = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def learner(name: str, created: str, state: Object = RUNNING, **status: Any) -> Object:
    found = pod("learner", name=name, redis=RUNNING, learner=state)
    found["metadata"]["creationTimestamp"] = f"2026-01-01T{created}Z"
    found["spec"] = {"nodeName": "node-7"}
    found["status"] |= status
    return found


def ended(name: str, created: str, at: str, code: int = 1, message: str = "old trouble") -> Object:
    state = terminated(code, message)
    state["state"]["terminated"]["finishedAt"] = f"2026-01-01T{at}Z"
    found = learner(name, created, state, phase="Failed")
    found["status"]["initContainerStatuses"] = []
    return found


class Watch:
    """The operator's looks at a Job's newest pod, one after the other."""

    def __init__(self, failed: int = 0) -> None:
        self._pods = LearnerPods()
        self.job = learner_job(failed=failed)

    def look(self, newest: Object | None, now: datetime = NOON, reported: str | None = None) -> Observed:
        job = make_job({"training": {"updatedAt": reported}} if reported else None)
        return self._pods.present(Observed(learner_job=self.job, learner_pod=newest), job, now)


def told(observed: Observed) -> Problem:
    found = learner_problem(observed, 3)
    assert found is not None
    return found


def test_an_older_failed_pod_is_no_evidence_when_the_newest_one_is_gone() -> None:
    """After an eviction from a cordoned node a Redis overload of ten minutes before was blamed."""
    watch, old = Watch(failed=1), ended("old", "11:40:00", "11:50:00")
    assert "old trouble" in told(watch.look(old)).message
    newest = learner("newest", "11:50:10")
    assert learner_problem(watch.look(newest), 3) is None
    leaving = learner("newest", "11:50:10", conditions=[EVICTION])
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T12:02:00Z", "deletionGracePeriodSeconds": 120}
    for observed in (watch.look(leaving), watch.look(old, NOON)):
        found = told(observed)
        assert (found.reason, found.warning) == ("LearnerDisrupted", False)
        assert "pod newest on node node-7 had to end: EvictionByEvictionAPI" in found.message
        assert "old trouble" not in found.message
        assert "costs no retry" in found.message
        assert observed.learner_pod is None or observed.learner_pod is leaving
    assert "kubectl delete node node-7" in told(watch.look(leaving)).message


def test_a_pod_that_somebody_deleted_says_so_and_when_the_next_one_starts() -> None:
    watch = Watch(failed=2)
    watch.look(learner("newest", "11:50:10"))
    gone = watch.look(ended("old", "11:40:00", "11:50:00"))
    assert learner_problem(gone, 3) is None
    said = starting(gone)
    assert "the learner's pod newest was deleted" in said
    assert "at about 12:00:20 UTC" in said, "two pods have failed, so Kubernetes waits twice 10 s"
    assert starting(watch.look(None, NOON + timedelta(seconds=9))) == said, "a status that does not change"


def test_an_operator_that_starts_leaves_out_a_pod_that_ended_before_the_last_report() -> None:
    old = ended("old", "11:40:00", "11:50:00")
    assert Watch().look(old, reported="2026-01-01T11:58:00Z").learner_pod is None
    assert Watch().look(old, reported="2026-01-01T11:50:00.900Z").learner_pod is old, "its own last report"
    assert Watch().look(old).learner_pod is old


def test_the_present_end_stays_told_after_its_pod_is_gone() -> None:
    """As when its pod is deleted because of others' containers in it."""
    watch, crashed = Watch(failed=1), learner("p", "11:50:00", terminated(3, "no such file"))
    watch.look(crashed)
    leaving = learner("p", "11:50:00", terminated(3, ""))
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
    for newest in (leaving, None):
        found = told(watch.look(newest))
        assert 'ended with exit code 3. Last words: "no such file"' in found.message
    assert "at about 12:00:10 UTC" in found.message


def test_the_next_job_knows_nothing_of_the_former_ones_pods() -> None:
    watch = Watch()
    watch.look(learner("p", "11:50:00", terminated(3)))
    watch.job = learner_job(uid="another")
    assert watch.look(None).learner_end is None


def test_sigkill_leaves_no_last_words() -> None:
    rounds = '3, "reward": 12.5}\n{"level": "info", "message": "round done"}'
    found = told(Watch().look(ended("p", "11:50:00", "11:59:58", 137, rounds)))
    assert "was killed by SIGKILL" in found.message
    assert "reward" not in found.message


def test_a_pod_that_a_node_gave_up_before_its_learner_ran_says_why() -> None:
    given_up = learner("p", "11:59:00", phase="Failed", reason="OutOfcpu", message="Node has no room")
    given_up["status"]["containerStatuses"] = []
    found = told(Watch().look(given_up))
    assert (found.reason, "OutOfcpu: Node has no room" in found.message) == ("LearnerDisrupted", True)
    assert "costs no retry" not in found.message


def test_no_retry_is_promised_after_the_last_one() -> None:
    crashed = ended("p", "11:50:00", "11:59:58")
    observed = seen(Observed(learner_job=learner_job(failed=4), learner_pod=crashed))
    assert "No retry is left" in told(observed).message


def test_the_wait_is_that_of_kubernetes_job_controller() -> None:
    assert [backoff(number).total_seconds() for number in (1, 2, 3, 4, 7, 8, 1000)] == [
        10, 20, 40, 80, 600, 600, 600,
    ]  # fmt: skip
