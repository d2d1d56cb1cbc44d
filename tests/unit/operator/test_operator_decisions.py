"""Decisions from what is observed: stage, phase, conditions, and what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from operator_objects import RUNNING, learner_job, make_job, make_view, pod, revision, terminated, waiting

from nitro_api.status import TrainingStatus
from nitro_operator import scaling, status
from nitro_operator.backends.knative import KnativeActors
from nitro_operator.backends.release import KnativeRelease, release_problem
from nitro_operator.diagnosis import actor_problem, learner_problem
from nitro_operator.memory import RequestClock
from nitro_operator.observed import Observed
from nitro_operator.stage import Judgement, Stage, judge, seconds_left

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)


def condition(kind: str, value: str = "True", reason: str = "X") -> Object:
    return {"type": kind, "status": value, "reason": reason, "message": "m", "lastTransitionTime": "t"}


class TestStage:
    @pytest.mark.parametrize(
        ("job", "observed", "stage"),
        [
            (make_job(), Observed(), Stage.ACTIVE),
            (make_job(), Observed(learner_job=learner_job()), Stage.ACTIVE),
            (make_job(suspend=True), Observed(learner_job=learner_job()), Stage.SUSPENDED),
            (make_job(), Observed(learner_job=learner_job("Complete")), Stage.SUCCEEDED),
            (make_job(suspend=True), Observed(learner_job=learner_job("Complete")), Stage.SUCCEEDED),
            (make_job(), Observed(learner_job=learner_job("Failed")), Stage.FAILED),
            (make_job(suspend=True), Observed(learner_job=learner_job("Failed")), Stage.SUSPENDED),
            (make_job({"conditions": [condition("Complete")]}), Observed(), Stage.SUCCEEDED),
            (make_job({"conditions": [condition("Failed")]}), Observed(), Stage.FAILED),
            (make_job({"conditions": [condition("Failed", reason="InvalidSpec")]}), Observed(), Stage.ACTIVE),
            (make_job({"conditions": [condition("Failed", "False")]}), Observed(), Stage.ACTIVE),
            (
                make_job({"conditions": [condition("Complete")]}),
                Observed(learner_job=learner_job()),
                Stage.ACTIVE,
            ),
        ],
    )
    def test_the_learners_job_is_the_evidence(self, job: Object, observed: Observed, stage: Stage) -> None:
        assert judge(job, observed, None, NOW).stage is stage

    @pytest.mark.parametrize(
        ("remembered", "stage"),
        [
            (condition("Failed", "False"), Stage.ACTIVE),  # suspended in between
            (condition("Failed"), Stage.FAILED),  # deleted by hand
        ],
    )
    def test_a_failed_learner_that_is_being_deleted_is_judged_by_what_was_published(
        self, remembered: Object, stage: Stage
    ) -> None:
        leaving = learner_job("Failed", deletionTimestamp="2026-01-01T00:59:59Z")
        job = make_job({"conditions": [remembered]})
        assert judge(job, Observed(learner_job=leaving), None, NOW).stage is stage
        assert judge(job, Observed(), None, NOW).stage is stage, "the same when it is gone"

    def test_a_spec_that_cannot_be_used_is_invalid_but_a_success_stays_one(self) -> None:
        assert judge(make_job(), Observed(), "spec.x: bad", NOW).stage is Stage.INVALID
        assert (
            judge(make_job(), Observed(learner_job=learner_job("Complete")), "bad", NOW).stage
            is Stage.SUCCEEDED
        )

    def test_the_deadline_runs_from_the_start_and_through_suspensions(self) -> None:
        started = {"startTime": "2026-01-01T00:30:00Z"}
        assert seconds_left(make_job(started, activeDeadlineSeconds=3600), NOW) == 1800
        assert seconds_left(make_job(activeDeadlineSeconds=3600), NOW) == 3600
        assert seconds_left(make_job(), NOW) is None
        late = make_job(started, activeDeadlineSeconds=1800, suspend=True)
        judged = judge(late, Observed(), None, NOW)
        assert judged.stage is Stage.FAILED
        assert judged.problem is not None
        assert judged.problem.reason == "DeadlineExceeded"

    def test_a_failure_carries_the_last_words_and_the_remedy(self) -> None:
        ended = pod("learner", phase="Failed", learner=terminated(1, "KeyError: 'x'"))
        observed = Observed(learner_job=learner_job("Failed"), learner_pod=ended)
        problem = judge(make_job(), observed, None, NOW).problem
        assert problem is not None
        assert problem.reason == "LearnerFailed"
        assert "KeyError" in problem.message
        assert "spec.suspend" in problem.message

    def test_exit_code_2_says_that_the_job_is_wrong(self) -> None:
        ended = pod(
            "learner", phase="Failed", learner=terminated(2, "spec.environment.id: no such 'x' in \"y\"")
        )
        problem = judge(
            make_job(), Observed(learner_job=learner_job("Failed"), learner_pod=ended), None, NOW
        ).problem
        assert problem is not None
        assert problem.reason == "InvalidJob"
        assert "spec.environment.id: no such 'x' in \"y\"" in problem.message, "as the learner said it"


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
        ],
    )
    def test_the_learners_troubles(self, observed: Observed, reason: str, words: str) -> None:
        found = learner_problem(observed, 3)
        assert found is not None
        assert (found.reason, words in found.message) == (reason, True)

    def test_a_healthy_or_starting_learner_has_none(self) -> None:
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
    def test_the_actors_troubles(self, pods: list[Object], found: Object, reason: str) -> None:
        problem = actor_problem(pods, found)
        assert problem is not None
        assert problem.reason == reason

    def test_an_actor_that_recovered_or_leaves_is_no_trouble(self) -> None:
        restarted = {**RUNNING, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
        leaving = pod("actor", actor=terminated(143))
        leaving["metadata"]["deletionTimestamp"] = "now"
        assert actor_problem([pod("actor", actor=restarted), leaving], revision()) is None


class TestKnative:
    def definition(self, version: str | None, established: str = "True") -> Object:
        labels = {"app.kubernetes.io/version": version} if version else {}
        conditions = [{"type": "Established", "status": established}]
        return {"metadata": {"labels": labels}, "status": {"conditions": conditions}}

    @pytest.mark.parametrize("version", ["1.21.0", "v1.23.1", "2.0", "devel", None])
    def test_new_enough(self, version: str | None) -> None:
        assert release_problem(self.definition(version)) is None

    @pytest.mark.parametrize("version", ["1.20.3", "v1.9.0", "0.26.0"])
    def test_too_old(self, version: str) -> None:
        problem = release_problem(self.definition(version))
        assert problem is not None
        assert problem.reason == "KnativeTooOld"
        assert version in problem.message
        assert "1.21" in problem.message

    def test_missing(self) -> None:
        for definition in (None, self.definition("1.23.0", established="False")):
            problem = release_problem(definition)
            assert problem is not None
            assert problem.reason == "KnativeMissing"
            assert "knative.dev/docs/install" in problem.message

    def test_only_a_difference_is_patched_and_both_keys_at_once(self) -> None:
        backend = KnativeActors(KnativeRelease())
        prefix = "autoscaling.knative.dev/"
        at_rest = Observed(revision=revision(**{f"{prefix}min-scale": "0", f"{prefix}max-scale": "1"}))
        patch = backend.scaling(at_rest, 12)
        assert patch is not None
        annotations = {f"{prefix}min-scale": "12", f"{prefix}max-scale": "12"}
        assert patch.patch == {"metadata": {"annotations": annotations}}
        assert backend.scaling(Observed(revision=revision(**annotations)), 12) is None
        assert backend.scaling(at_rest, 0) is None
        assert backend.scaling(Observed(), 12) is None


class TestForecast:
    def training(self, requested: int | None, *actors: int) -> TrainingStatus:
        history = [{"round": n + 1, "actors": number} for n, number in enumerate(actors)]
        return TrainingStatus.model_validate({"requestedActors": requested, "history": history})

    def test_the_larger_of_the_last_two_requests_within_the_range(self) -> None:
        spec = make_view().spec
        assert scaling.forecast(spec, None) == 8
        assert scaling.forecast(spec, self.training(None)) == 8
        assert scaling.forecast(spec, self.training(5, 12)) == 12
        assert scaling.forecast(spec, self.training(12, 5)) == 12
        assert scaling.forecast(spec, self.training(4, 20, 6)) == 6
        assert scaling.forecast(spec, self.training(100, 5)) == 24
        assert scaling.forecast(spec, self.training(1)) == 4

    def test_no_score_counts_as_the_highest(self) -> None:
        assert scaling.score(None) == 1
        assert scaling.score(TrainingStatus(boosting_score=0.25)) == 0.25


def test_only_a_request_that_was_seen_to_come_is_timed() -> None:
    clock = RequestClock()
    clock.see(make_job({"training": {"requestedActors": 4}}), 1.0)
    assert clock.answered(2.0) is None
    clock.see(make_job({"training": {"requestedActors": 6}}), 3.0)
    clock.see(make_job({"training": {"requestedActors": 6, "round": 2}}), 4.0)
    assert clock.answered(5.0) == 2.0
    assert clock.answered(6.0) is None


class TestStatus:
    def situation(self, **values: Any) -> status.Situation:
        defaults: Object = {
            "judgement": Judgement(Stage.ACTIVE),
            "observed": observed_with(),
            "serving": True,
        }
        return status.Situation(view=make_view(), **{**defaults, **values})

    def test_phases(self) -> None:
        wait = status.limit_problem(4, 10, 8)
        assert status.phase(self.situation()) == "Running"
        assert status.phase(self.situation(observed=Observed())) == "Starting"
        assert status.phase(self.situation(observed=Observed(), waiting=wait)) == "Pending"
        for stage, phase in (
            (Stage.SUSPENDED, "Suspended"),
            (Stage.SUCCEEDED, "Succeeded"),
            (Stage.FAILED, "Failed"),
            (Stage.INVALID, "Failed"),
        ):
            assert status.phase(self.situation(judgement=Judgement(stage))) == phase

    def test_a_learner_that_has_ended_well_does_not_start_again(self) -> None:
        """Its pod is over before its Job is Complete."""
        done = self.situation(observed=observed_with(terminated(0, reason="Completed"), phase="Succeeded"))
        assert status.phase(done) == "Running"
        found = {c.type: c for c in status.conditions(done)}
        assert (found["LearnerReady"].status, found["LearnerReady"].reason) == (False, "Finished")
        assert not found["LearnerReady"].warning
        crashed = self.situation(observed=observed_with(terminated(1), phase="Failed"))
        assert status.phase(crashed) == "Starting"

    def test_all_six_conditions_are_always_there_and_ready_names_what_is_wrong(self) -> None:
        found = {c.type: c for c in status.conditions(self.situation())}
        assert set(found) == {"Ready", "LearnerReady", "ActorsReady", "Suspended", "Complete", "Failed"}
        assert found["Ready"].status
        wait = status.limit_problem(40, 28, 0)
        queued = self.situation(observed=Observed(), waiting=wait, serving=False)
        for condition in status.conditions(queued)[:3]:  # none of them says that something is being started
            assert (condition.status, "platform.maxActors" in condition.message) == (False, True)
        silent = {c.type: c for c in status.conditions(self.situation(heard=False))}
        assert (silent["Ready"].status, silent["Ready"].reason) == (False, "HeartbeatLost")
        unreached = {c.type: c for c in status.conditions(self.situation(silent="no actor has answered yet"))}
        assert (unreached["Ready"].status, unreached["Ready"].reason) == (False, "ActorsSilent")
        assert unreached["ActorsReady"].message.startswith("no actor has answered yet. One more")

    def test_nothing_new_is_no_difference(self) -> None:
        situation = self.situation(requested=8, granted=8, ready=8, pod_seconds=10)
        job = make_job()
        first = status.build(situation, job, NOW)
        again = status.build(situation, {**job, "status": first}, NOW.replace(hour=5))
        assert again == first, "times stay, too"
        published = {**job, "status": {**first, "training": {"round": 1}}}
        assert status.difference(again, published) == status.Difference(
            matters=False, counts=False, meter=False
        )

    def test_counts_and_the_meter_are_told_from_what_matters(self) -> None:
        job = make_job()
        job["status"] = status.build(self.situation(ready=1), job, NOW)
        more = status.build(self.situation(ready=2, pod_seconds=3), job, NOW)
        assert status.difference(more, job) == status.Difference(matters=False, counts=True, meter=True)
        granted = status.build(self.situation(ready=1, granted=5), job, NOW)
        assert status.difference(granted, job).matters

    def test_a_completion_time_is_kept_and_goes_with_a_revival(self) -> None:
        job = make_job()
        ended = self.situation(judgement=Judgement(Stage.FAILED, status.SILENT))
        job["status"] = status.build(ended, job, NOW)
        assert job["status"]["completionTime"] == "2026-01-01T01:00:00Z"
        assert status.build(ended, job, NOW.replace(hour=9))["completionTime"] == "2026-01-01T01:00:00Z"
        assert "completionTime" not in status.build(self.situation(), job, NOW)
