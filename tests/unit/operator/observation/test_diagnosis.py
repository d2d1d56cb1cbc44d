"""What is wrong with a learner or with actors."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.observation.diagnosis import actor_problem, learner_problem
from nitro_operator.observation.observed import Observed
from operator_objects import RUNNING, learner_job, pod, revision, terminated, waiting

Object = dict[str, Any]


def observed_with(learner: Object | None = None, redis: Object | None = None, **status: Any) -> Observed:
    found = pod("learner", redis=redis or RUNNING, learner=learner or RUNNING)
    found["status"] |= status
    return Observed(learner_job=learner_job(failed=1), learner_pod=found, revision=revision())


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
        leaving = observed_with(learner=terminated(143))
        (leaving.learner_pod or {})["metadata"]["deletionTimestamp"] = "now"
        assert learner_problem(leaving, 3) is None
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

    def test_an_actor_that_recovered_or_terminates_has_no_problem(self) -> None:
        restarted = {**RUNNING, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
        leaving = pod("actor", actor=terminated(143))
        leaving["metadata"]["deletionTimestamp"] = "now"
        assert actor_problem([pod("actor", actor=restarted), leaving], revision()) is None
