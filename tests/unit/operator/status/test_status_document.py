"""The status that the operator publishes: phase, conditions, and what has changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed
from nitro_operator.scaling.platform import Room
from nitro_operator.status import document
from nitro_operator.status.actor_problems import limit_problem
from nitro_operator.status.conditions import news
from nitro_operator.status.difference import Difference, difference
from nitro_operator.status.phase import Judgement, Stage
from nitro_operator.status.pod_report import PodReport
from operator_objects import RUNNING, learner_job, make_job, make_view, pod, revision, seen, terminated

Object = dict[str, Any]


NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)


def condition(kind: str, value: str = "True", reason: str = "X") -> Object:
    return {"type": kind, "status": value, "reason": reason, "message": "m", "lastTransitionTime": "t"}


def observed_with(learner: Object | None = None, redis: Object | None = None, **status: Any) -> Observed:
    found = pod("learner", redis=redis or RUNNING, learner=learner or RUNNING)
    found["status"] |= status
    return seen(Observed(learner_job=learner_job(failed=1), learner_pod=found, revision=revision()))


class TestStatus:
    def situation(self, **values: Any) -> document.Situation:
        defaults: Object = {
            "judgement": Judgement(Stage.ACTIVE),
            "observed": observed_with(),
            "serving": True,
        }
        return document.Situation(view=make_view(), **{**defaults, **values})

    def test_each_stage_has_its_phase(self) -> None:
        wait = limit_problem(4, Room(10, 8), Room(10, 0))
        assert document.phase(self.situation()) == "Running"
        assert document.phase(self.situation(observed=Observed())) == "Starting"
        assert document.phase(self.situation(observed=Observed(), waiting=wait)) == "Pending"
        for stage, phase in (
            (Stage.SUSPENDED, "Suspended"),
            (Stage.SUCCEEDED, "Succeeded"),
            (Stage.FAILED, "Failed"),
            (Stage.INVALID, "Failed"),
            (Stage.DELETED, "Deleting"),
            (Stage.NOT_ALLOWED, "Pending"),
        ):
            ended = self.situation(judgement=Judgement(stage), observed=Observed())
            assert document.phase(ended) == phase
            stopping = stage in (Stage.SUSPENDED, Stage.NOT_ALLOWED)
            assert document.phase(self.situation(judgement=Judgement(stage))) == (
                "Stopping" if stopping else phase
            )

    @pytest.mark.parametrize(("scaling", "scaler"), [({}, "fixed"), ({"scaler": "kungfu"}, "kungfu")])
    def test_the_scaler_is_named_also_where_the_preset_chooses_it(self, scaling: Object, scaler: str) -> None:
        view = make_view(scaling=scaling)
        situation = replace(self.situation(), view=view)
        assert document.build(situation, make_job(scaling=scaling), NOW)["scaler"] == scaler

    @pytest.mark.parametrize(
        ("platform", "namespace", "reason", "words"),
        [
            (Room(100, 98), Room(100, 98), "PlatformLimit", "other jobs hold 98 of the 100 of the platform"),
            (Room(3, 0), Room(3, 0), "PlatformLimit", "the platform may have 3 in all"),
            (Room(100, 98), Room(50, 40), "PlatformLimit", "other jobs hold 98 of the 100 of the platform"),
            (Room(100, 48), Room(50, 48), "NamespaceLimit", "other jobs hold 48 of the 50 of this namespace"),
            (Room(100, 0), Room(3, 0), "NamespaceLimit", "raise the chart's platform.namespaceMaxActors"),
        ],
    )
    def test_a_waiting_job_names_the_limit_that_it_waits_for(
        self, platform: Room, namespace: Room, reason: str, words: str
    ) -> None:
        found = limit_problem(4, platform, namespace)
        assert found.reason == reason
        assert words in found.message

    def test_a_job_whose_pods_are_too_large_for_the_limit_says_so(self) -> None:
        found = limit_problem(9, Room(8, 0), Room(8, 0), per_pod=3)
        assert "needs 9 actors in pods of 3, the platform may have 8 in all" in found.message
        assert "lower spec.scaling.minActors or spec.actor.perPod" in found.message

    def test_only_what_is_being_deleted_is_said_to_be(self) -> None:
        label, owner = {"nitro.dev/job": "hopper"}, {"kind": "NitroTrainingJob", "name": "hopper", "uid": "x"}
        former = learner_job(ownerReferences=[owner], labels=label)
        strange = learner_job(name="hopper-actors", ownerReferences=[], labels=label)

        def told(*foreign: Object) -> document.Condition:
            observed = Observed(foreign=[{"kind": "Job"} | one for one in foreign])
            found = {one.type: one for one in document.conditions(self.situation(observed=observed))}
            return found["LearnerReady"]

        assert told(former).reason == "Waiting"
        assert "Job hopper-learner. They are being deleted" in told(former).message
        assert told(former, strange).reason == "NameTaken"
        assert "has not made Job hopper-actors, though the labels say so" in told(former, strange).message
        assert told(strange).warning

    def test_a_learner_that_succeeded_is_not_shown_as_starting(self) -> None:
        """Its pod is over before its Job is Complete."""
        done = self.situation(observed=observed_with(terminated(0, reason="Completed"), phase="Succeeded"))
        assert document.phase(done) == "Running"
        found = {c.type: c for c in document.conditions(done)}
        assert (found["LearnerReady"].status, found["LearnerReady"].reason) == (False, "Finished")
        assert not found["LearnerReady"].warning
        crashed = self.situation(observed=observed_with(terminated(1), phase="Failed"))
        assert document.phase(crashed) == "Starting"

    def test_a_learner_whose_former_pod_cannot_end_names_the_node(self) -> None:
        pod = {"metadata": {"name": "hopper-learner-x", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        pod["metadata"] |= {"uid": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod |= {"spec": {"nodeName": "node-7"}, "status": {"phase": "Running"}}
        observed = seen(Observed(learner_job=learner_job(), learner_pod=pod))
        found = {c.type: c for c in document.conditions(self.situation(observed=observed))}["LearnerReady"]
        assert (found.status, found.reason) == (False, "Starting")
        assert "pod hopper-learner-x has to end first on node node-7" in found.message

    def test_a_checkpoint_that_the_bucket_lacks_is_a_warning_of_a_learner_that_trains_on(self) -> None:
        told = TrainingStatus(reason="CheckpointMissed", message="the checkpoint of round 4 is not there.")
        found = {c.type: c for c in document.conditions(self.situation(training=told))}
        learner = found["LearnerReady"]
        assert (learner.status, learner.reason, learner.warning) == (True, "CheckpointMissed", True)
        assert learner.message.startswith("the checkpoint of round 4 is not there. The learner trains on")
        assert "the present keys of credentialsSecret" in learner.message
        assert found["Ready"].status

    def test_rollouts_that_are_cut_are_a_warning_of_actors_that_serve(self) -> None:
        told = TrainingStatus(reason="RolloutsCut", message="2 requests were not answered within 60 s")
        found = {c.type: c for c in document.conditions(self.situation(training=told))}
        actors = found["ActorsReady"]
        assert (actors.status, actors.reason, actors.warning) == (True, "RolloutsCut", True)
        assert actors.message.startswith("2 requests were not answered within 60 s. An actor goes on")
        assert "a larger spec.actor.timeoutSeconds" in actors.message
        assert found["Ready"].status

    def test_time_in_a_queue_before_the_first_start_does_not_count_towards_the_deadline(self) -> None:
        held = learner_job(namespace="team")
        held["spec"]["suspend"] = True
        queued = self.situation(observed=Observed(learner_job=held))
        assert document.phase(queued) == "Pending"
        assert "startTime" not in document.build(queued, make_job(), NOW)
        assert "startTime" in document.build(self.situation(), make_job(), NOW)

    def test_all_six_conditions_are_present_and_ready_names_the_problem(self) -> None:
        found = {c.type: c for c in document.conditions(self.situation())}
        assert set(found) == {"Ready", "LearnerReady", "ActorsReady", "Suspended", "Complete", "Failed"}
        assert found["Ready"].status
        wait = limit_problem(40, Room(28, 0), Room(28, 0))
        queued = self.situation(observed=Observed(), waiting=wait, serving=False)
        for condition in document.conditions(queued)[:3]:  # none of them says that something is being started
            assert (condition.status, "platform.maxActors" in condition.message) == (False, True)
        silent = {c.type: c for c in document.conditions(self.situation(heard=False))}
        assert (silent["Ready"].status, silent["Ready"].reason) == (False, "HeartbeatLost")
        unreached = {
            c.type: c for c in document.conditions(self.situation(silent="no actor has answered yet"))
        }
        assert (unreached["Ready"].status, unreached["Ready"].reason) == (False, "ActorsSilent")
        assert unreached["ActorsReady"].message.startswith(
            "no actor has answered yet. The operator has added"
        )

    @pytest.mark.parametrize(
        ("told", "value", "warning"),
        [
            ("EnvironmentSound", "True", False),
            ("EnvironmentFaulty", "False", True),
            ("NotChecked", "Unknown", False),
        ],
    )
    def test_what_the_check_of_the_environment_came_to_is_a_condition(
        self, told: str, value: str, warning: bool
    ) -> None:
        situation = self.situation(training=TrainingStatus(check=told, check_message="why"))
        found = {c["type"]: c for c in document.build(situation, make_job(), NOW)["conditions"]}
        one = found["EnvironmentSound"]
        assert (one["status"], one["reason"], one["message"]) == (value, told, "why")
        assert found["Ready"]["status"] == "True", "it trains on"
        kinds = [one.type for one in news(document.conditions(situation), []) if one.warning]
        assert kinds == ["EnvironmentSound"] * warning

    @pytest.mark.parametrize("told", [None, "Whatever"])
    def test_no_check_is_no_condition(self, told: str | None) -> None:
        training = TrainingStatus(check=told)
        kinds = {c.type for c in document.conditions(self.situation(training=training))}
        assert "EnvironmentSound" not in kinds

    def test_an_unchanged_status_is_no_difference(self) -> None:
        situation = self.situation(requested=8, granted=8, ready=8, pods=PodReport(10))
        job = make_job()
        first = document.build(situation, job, NOW)
        again = document.build(situation, {**job, "status": first}, NOW.replace(hour=5))
        assert again == first, "times stay, too"
        published = {**job, "status": {**first, "training": {"round": 1}}}
        assert difference(again, published) == Difference(
            matters=False, counts=False, meter=False, words=False
        )

    def test_changes_of_counts_and_meter_are_distinguished_from_important_changes(self) -> None:
        job = make_job()
        job["status"] = document.build(self.situation(ready=1), job, NOW)
        more = document.build(self.situation(ready=2, pods=PodReport(3)), job, NOW)
        assert difference(more, job) == Difference(matters=False, counts=True, meter=True, words=False)
        granted = document.build(self.situation(ready=1, granted=5), job, NOW)
        assert difference(granted, job).matters

    def test_other_words_of_a_condition_are_distinguished_from_another_reason(self) -> None:
        def told(reason: str, message: str) -> Object:
            trouble = {"learner": Problem(reason, message)}
            return document.build(self.situation(trouble=trouble), job, NOW)

        job = make_job()
        job["status"] = told("Forbidden", "request 1 denied")
        again = difference(told("Forbidden", "request 2 denied"), job)
        assert again == Difference(matters=False, counts=False, meter=False, words=True)
        other = difference(told("Refused", "request 1 denied"), job)
        assert other == Difference(matters=True, counts=False, meter=False, words=False)

    def test_a_time_that_a_message_promises_is_told_at_once(self) -> None:
        """A learner starts again after ten seconds, for which other words may wait."""
        job = make_job()
        trouble = {"learner": Problem("LearnerCrashed", "The next one starts when that pod has ended.")}
        job["status"] = document.build(self.situation(trouble=trouble), job, NOW)
        promised = {"learner": Problem("LearnerCrashed", "The next one starts at about 12:00:10 UTC.")}
        assert difference(document.build(self.situation(trouble=promised), job, NOW), job).matters

    def test_a_completion_time_is_kept_until_the_job_runs_again(self) -> None:
        job = make_job()
        ended = self.situation(judgement=Judgement(Stage.FAILED, document.SILENT))
        job["status"] = document.build(ended, job, NOW)
        assert job["status"]["completionTime"] == "2026-01-01T01:00:00Z"
        assert document.build(ended, job, NOW.replace(hour=9))["completionTime"] == "2026-01-01T01:00:00Z"
        assert "completionTime" not in document.build(self.situation(), job, NOW)
