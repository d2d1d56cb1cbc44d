"""What is wrong with a learner or with actors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nitro_operator.kube.errors import over_quota
from nitro_operator.observation.diagnosis import Problem, actor_problem, not_started, quota_problem
from nitro_operator.observation.learner_diagnosis import learner_problem
from nitro_operator.observation.observed import Observed
from operator_objects import RUNNING, learner_job, pod, revision, seen, terminated, waiting

Object = dict[str, Any]


def observed_with(learner: Object | None = None, redis: Object | None = None, **status: Any) -> Observed:
    found = pod("learner", redis=redis or RUNNING, learner=learner or RUNNING)
    found["status"] |= status
    return seen(Observed(learner_job=learner_job(failed=1), learner_pod=found, revision=revision()))


class TestDiagnosis:
    @pytest.mark.parametrize(
        ("observed", "reason", "words"),
        [
            (observed_with(learner=waiting("ErrImagePull", "denied")), "ImagePullFailed", "pull secret"),
            (
                observed_with(learner=waiting("CreateContainerConfigError", "secret")),
                "ContainerNotCreated",
                "Secret",
            ),
            (observed_with(learner=terminated(1, "boom")), "LearnerCrashed", "boom"),
            (observed_with(learner=terminated(137, reason="OOMKilled")), "LearnerOOMKilled", "limits.memory"),
            (
                observed_with(learner=waiting("PodInitializing"), redis=waiting("CrashLoopBackOff")),
                "RedisUnreachable",
                "Redis image",
            ),
            (
                observed_with(
                    learner=waiting("PodInitializing"), redis=terminated(1, "Bad\nnot enough memory")
                ),
                "RedisUnreachable",
                "not enough memory",
            ),
            (
                observed_with(
                    conditions=[
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
                        }
                    ]
                ),
                "Unschedulable",
                "nvidia.com/gpu",
            ),
            (
                observed_with(
                    conditions=[
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": 'persistentvolumeclaim "source-checkpoint" not found. not found',
                        }
                    ]
                ),
                "Unschedulable",
                "Create that claim",
            ),
            (
                observed_with(
                    conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
                ),
                "SchedulingGated",
                "Kueue",
            ),
        ],
    )
    def test_learner_problems_are_named_with_a_remedy(
        self, observed: Observed, reason: str, words: str
    ) -> None:
        found = learner_problem(observed, 3)
        assert found is not None
        assert (found.reason, words in found.message) == (reason, True)

    def test_a_healthy_or_starting_learner_has_no_problem(self) -> None:
        assert learner_problem(observed_with(), 3) is None
        restarted = {**RUNNING, "lastState": {"terminated": {"exitCode": 137}}}
        assert learner_problem(observed_with(redis=restarted), 3) is None
        leaving = pod("learner", redis=RUNNING, learner=terminated(143))
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
        assert learner_problem(seen(Observed(learner_job=learner_job(), learner_pod=leaving)), 3) is None
        assert learner_problem(observed_with(learner=waiting("PodInitializing")), 3) is None
        assert learner_problem(Observed(learner_job=learner_job()), 3) is None

    @pytest.mark.parametrize(
        ("pods", "found", "reason"),
        [
            ([pod("actor", actor=waiting("ImagePullBackOff"))], revision("Unknown"), "ImagePullFailed"),
            ([pod("actor", actor=terminated(137, reason="OOMKilled"))], revision(), "ActorOOMKilled"),
            ([pod("actor", actor=terminated(1, "no gym"))], revision(), "ActorCrashed"),
            ([], revision("False", "ProgressDeadlineExceeded", "image"), "ProgressDeadlineExceeded"),
            ([], revision("False", "FailedCreate", "pods is forbidden: exceeded quota: q"), "QuotaExceeded"),
        ],
    )
    def test_actor_problems_are_named(self, pods: list[Object], found: Object, reason: str) -> None:
        problem = actor_problem(pods, found)
        assert problem is not None
        assert problem.reason == reason

    def test_the_end_of_an_actor_that_was_ready_since_is_no_evidence(self) -> None:
        """Nor is that of a pod which a node has given up: a ReplicaSet keeps it."""
        crashed = terminated(1, "boom")["state"]
        unready = {"state": {"running": {"startedAt": "2026-01-01T00:01:00Z"}}, "lastState": crashed}
        flaky = pod("actor", actor=unready | {"ready": False})
        changed = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:09:00Z"}
        flaky["status"]["conditions"] = [changed]
        assert actor_problem([flaky], revision()) is None
        flaky["status"]["conditions"] = [changed | {"lastTransitionTime": "2026-01-01T00:00:30Z"}]
        assert "boom" in (actor_problem([flaky], revision()) or Problem("", "")).message
        evicted = pod("actor", phase="Failed", actor=terminated(137))
        assert actor_problem([evicted], revision()) is None

    def test_a_crashed_actor_has_the_whole_cause_and_a_remedy_that_can_be_done(self) -> None:
        cause = f"environment mine:Env cannot be built: TypeError: {'x' * 30_000} is no map"
        found = actor_problem([pod("actor", actor=terminated(1, cause))], revision())
        assert found is not None
        assert 'Last words: "environment mine:Env cannot be built: TypeError: xx' in found.message
        assert 'xx is no map".' in found.message
        assert len(found.message) < 1024, "an event takes no more"
        assert "spec.environment cannot change: if that is wrong, delete the job" in found.message

    def test_a_node_that_was_drained_is_to_be_uncordoned(self) -> None:
        told = "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) had untolerated taint(s)."
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}
        found = learner_problem(observed_with(conditions=[waits]), 3)
        assert found is not None
        for words in ("untolerated taint", "kubectl uncordon NODE", "tolerations or affinity, and resume it"):
            assert words in found.message
        other = learner_problem(observed_with(conditions=[waits | {"message": "Insufficient cpu"}]), 3)
        assert "uncordon" not in (other or found).message

    def test_a_claim_of_a_cluster_without_a_default_class_names_three_remedies(self) -> None:
        claim = {
            "metadata": {"name": "hopper-checkpoint"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        }
        unbound = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        }
        found = learner_problem(replace(observed_with(conditions=[unbound]), claim=claim), 3)
        assert found is not None
        assert found.reason == "Unschedulable"
        for words in ("claim hopper-checkpoint of 1Gi", "the cluster has no default one"):
            assert words in found.message
        for remedy in ("get storageclass) the default", "pvc.storageClassName", "checkpoint.pvc.claimName"):
            assert remedy in found.message
        named = {**claim, "spec": {**claim["spec"], "storageClassName": "fast"}}
        other = learner_problem(replace(observed_with(conditions=[unbound]), claim=named), 3)
        assert "no default one" not in (other or found).message

    def test_an_actor_that_recovered_or_terminates_has_no_problem(self) -> None:
        restarted = {**RUNNING, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
        leaving = pod("actor", actor=terminated(143))
        leaving["metadata"]["deletionTimestamp"] = "now"
        assert actor_problem([pod("actor", actor=restarted), leaving], revision()) is None


@pytest.mark.parametrize(
    ("requested", "advised", "not_advised"),
    [
        ("secrets=1", "delete an object of that kind", "maxActors"),
        ("count/services=1", "delete an object of that kind", "maxActors"),
        ("configmaps=1", "delete an object of that kind", "maxActors"),
        ("persistentvolumeclaims=1,requests.storage=1Gi", "delete a claim", "maxActors"),
        ("fast.storageclass.storage.k8s.io/requests.storage=1Gi", "delete a claim", "maxActors"),
        ("pods=1", "maxActors", "delete"),
        ("limits.cpu=1,limits.memory=2Gi", "maxActors", "delete"),
        ("requests.nvidia.com/gpu=1", "maxActors", "delete"),
    ],
)
def test_the_remedy_of_a_full_quota_fits_what_it_counts(
    requested: str, advised: str, not_advised: str
) -> None:
    message = f"x is forbidden: exceeded quota: q, requested: {requested}, used: a=1, limited: a=1"
    found = quota_problem(message)
    assert found.reason == "QuotaExceeded"
    assert advised in found.message
    assert not_advised not in found.message


def test_a_quota_that_asks_for_limits_names_the_fields_for_them() -> None:
    message = 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: learner,queue-proxy'
    assert over_quota(message)
    found = quota_problem(message)
    assert found.reason == "QuotaExceeded"
    for where in ("spec.learner.resources", "spec.actor.resources", "spec.cache.resources", "LimitRange"):
        assert where in found.message


@pytest.mark.parametrize(
    ("secret", "remedy"),
    [
        ("hopper-credentials", "The operator creates this Secret again"),
        ("hopper-0f8fad5b-credentials", "The operator creates this Secret again"),
        ("my-bucket", "Create the Secret or ConfigMap"),
    ],
)
def test_only_the_jobs_own_secret_is_said_to_come_back_by_itself(secret: str, remedy: str) -> None:
    status = waiting("CreateContainerConfigError", f'secret "{secret}" not found')
    found = not_started(pod("learner", learner=status), "the learner")
    assert found is not None
    assert found.reason == "ContainerNotCreated"
    assert remedy in found.message
