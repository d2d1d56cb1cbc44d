"""The phase of a job, from its learner's Job and its own status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nitro_operator.observation.observed import Observed
from nitro_operator.status.phase import Stage, phase_of, seconds_left
from operator_objects import RUNNING, learner_job, make_job, pod, seen, terminated, waiting

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
    def test_the_stage_follows_the_learners_job(self, job: Object, observed: Observed, stage: Stage) -> None:
        assert phase_of(job, observed, None, NOW).stage is stage

    @pytest.mark.parametrize(
        ("code", "others", "phase", "stage"),
        [
            (0, RUNNING, "Running", Stage.SUCCEEDED),  # a service mesh's container, which runs on
            (0, waiting("ImagePullBackOff"), "Pending", Stage.SUCCEEDED),
            (0, terminated(7), "Failed", Stage.SUCCEEDED),  # the learner's code counts, not the sidecar's
            (0, terminated(0), "Succeeded", Stage.ACTIVE),  # its Job says so in a moment
            (1, RUNNING, "Running", Stage.ACTIVE),
        ],
    )
    def test_a_learner_that_is_done_counts_whatever_containers_of_others_do(
        self, code: int, others: Object, phase: str, stage: Stage
    ) -> None:
        meshed = pod("learner", phase=phase, learner=terminated(code), proxy=others)
        observed = seen(Observed(learner_job=learner_job(), learner_pod=meshed))
        assert phase_of(make_job(), observed, None, NOW).stage is stage

    def test_a_success_stays_while_its_job_is_being_deleted(self) -> None:
        leaving = learner_job(deletionTimestamp="2026-01-01T00:59:59Z")
        done = make_job({"conditions": [condition("Complete")]})
        assert phase_of(done, Observed(learner_job=leaving), None, NOW).stage is Stage.SUCCEEDED

    @pytest.mark.parametrize(
        ("remembered", "stage"),
        [
            (condition("Failed", "False"), Stage.ACTIVE),  # suspended in between
            (condition("Failed"), Stage.FAILED),  # deleted by hand
        ],
    )
    def test_a_failed_job_under_deletion_does_not_change_the_published_stage(
        self, remembered: Object, stage: Stage
    ) -> None:
        leaving = learner_job("Failed", deletionTimestamp="2026-01-01T00:59:59Z")
        job = make_job({"conditions": [remembered]})
        assert phase_of(job, Observed(learner_job=leaving), None, NOW).stage is stage
        assert phase_of(job, Observed(), None, NOW).stage is stage, "the same when it is gone"

    @pytest.mark.parametrize("ended", ["", "Failed"])
    @pytest.mark.parametrize(("settings", "stage"), [("new", Stage.SUSPENDED), ("old", None)])
    def test_a_learner_of_other_settings_goes_first(
        self, ended: str, settings: str, stage: Stage | None
    ) -> None:
        learner = learner_job(ended) if ended else learner_job()
        learner["metadata"]["annotations"] = {"nitro.dev/settings-hash": "old"}
        unchanged = phase_of(make_job(), Observed(learner_job=learner), None, NOW).stage
        assert phase_of(make_job(), Observed(learner_job=learner), None, NOW, settings).stage is (
            stage or unchanged
        )
        of_the_release_before = learner_job(ended) if ended else learner_job()
        assert phase_of(make_job(), Observed(learner_job=of_the_release_before), None, NOW, "new").stage is (
            unchanged
        )
        done = learner_job("Complete")
        done["metadata"]["annotations"] = {"nitro.dev/settings-hash": "old"}
        assert phase_of(make_job(), Observed(learner_job=done), None, NOW, "new").stage is Stage.SUCCEEDED

    def test_an_invalid_spec_does_not_replace_a_success(self) -> None:
        assert phase_of(make_job(), Observed(), "spec.x: bad", NOW).stage is Stage.INVALID
        assert (
            phase_of(make_job(), Observed(learner_job=learner_job("Complete")), "bad", NOW).stage
            is Stage.SUCCEEDED
        )

    @pytest.mark.parametrize(
        ("spec", "learner", "stage"),
        [
            ({}, None, Stage.INVALID),
            ({"suspend": True}, None, Stage.INVALID),
            ({}, learner_job(), Stage.HELD),
            ({"suspend": True}, learner_job(), Stage.SUSPENDED),
            ({"activeDeadlineSeconds": 1}, learner_job(), Stage.FAILED),
            ({}, learner_job("Failed"), Stage.FAILED),
        ],
    )
    def test_a_run_whose_spec_cannot_be_read_goes_on_until_it_is_ended(
        self, spec: Object, learner: Object | None, stage: Stage
    ) -> None:
        job = make_job({"startTime": "2026-01-01T00:30:00Z"}, **spec)
        assert phase_of(job, Observed(learner_job=learner), "spec.x: bad", NOW).stage is stage

    def test_the_deadline_counts_from_the_start_and_includes_suspensions(self) -> None:
        started = {"startTime": "2026-01-01T00:30:00Z"}
        assert seconds_left(make_job(started, activeDeadlineSeconds=3600), NOW) == 1800
        assert seconds_left(make_job(activeDeadlineSeconds=3600), NOW) == 3600
        assert seconds_left(make_job(), NOW) is None
        late = make_job(started, activeDeadlineSeconds=1800, suspend=True)
        judged = phase_of(late, Observed(), None, NOW)
        assert judged.stage is Stage.FAILED
        assert judged.problem is not None
        assert judged.problem.reason == "DeadlineExceeded"

    def test_a_failure_names_the_last_log_line_and_the_remedy(self) -> None:
        ended = pod("learner", phase="Failed", learner=terminated(1, "KeyError: 'x'"))
        observed = seen(Observed(learner_job=learner_job("Failed"), learner_pod=ended))
        problem = phase_of(make_job(), observed, None, NOW).problem
        assert problem is not None
        assert problem.reason == "LearnerFailed"
        assert "KeyError" in problem.message
        assert "spec.suspend" in problem.message

    def test_a_failure_is_still_known_when_its_pod_is_gone(self) -> None:
        """As when the node is removed that nobody uses any more."""
        published = condition("Failed", reason="InvalidJob") | {"message": "it said: no such environment"}
        job = make_job({"conditions": [published]})
        problem = phase_of(job, Observed(learner_job=learner_job("Failed")), None, NOW).problem
        assert problem is not None
        assert (problem.reason, problem.message) == ("InvalidJob", "it said: no such environment")
        unknown = phase_of(make_job(), Observed(learner_job=learner_job("Failed")), None, NOW).problem
        assert unknown is not None
        assert unknown.reason == "LearnerFailed"

    @pytest.mark.parametrize("learner", [None, learner_job("Failed")], ids=["deleted", "failed"])
    @pytest.mark.parametrize(("suspend", "reason"), [(False, "LearnerFailed"), (True, "DeadlineExceeded")])
    def test_a_deadline_that_passes_after_a_failure_does_not_replace_its_cause(
        self, learner: Object | None, suspend: bool, reason: str
    ) -> None:
        status = {"startTime": "2026-01-01T00:30:00Z"}
        status |= {"conditions": [condition("Failed", reason="LearnerFailed")]}
        job = make_job(status, activeDeadlineSeconds=1800, suspend=suspend)
        judged = phase_of(job, Observed(learner_job=learner), None, NOW)
        assert judged.stage is Stage.FAILED
        assert judged.problem is not None
        assert judged.problem.reason == reason

    def test_exit_code_2_is_reported_as_an_invalid_job(self) -> None:
        ended = pod(
            "learner", phase="Failed", learner=terminated(2, "spec.environment.id: no such 'x' in \"y\"")
        )
        problem = phase_of(
            make_job(), seen(Observed(learner_job=learner_job("Failed"), learner_pod=ended)), None, NOW
        ).problem
        assert problem is not None
        assert problem.reason == "InvalidJob"
        assert "spec.environment.id: no such 'x' in \"y\"" in problem.message, "as the learner said it"
