"""The learner's word with the API server: who answers, and that the end is reported whatever comes before."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes.client import Configuration

from learner_pod import trained
from nitro_api import load_job, resolve
from nitro_api.costs.pod_use import PodUse
from nitro_api.costs.prices import RoundCost
from nitro_learner.cluster import api
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone
from nitro_learner.cluster.status_reporter import StatusReporter
from nitro_learner.run.check_listener import not_checked
from nitro_learner.run.checking.report import Report
from nitro_learner.training.round_report import Outcome
from nitro_learner.training.sharing.toggles import Regrouping
from nitro_learner.training.stop import Forecast
from replicas_support import replicas
from report_support import report as round_report
from train_support import job

SECONDS = 120.0


def test_a_failing_api_server_is_replaced_by_another_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"metadata": {"name": "small", "uid": "u"}}
    with replicas(stored) as servers:
        configuration = Configuration()
        configuration.host = servers.url
        monkeypatch.setattr(Configuration, "_default", configuration)
        monkeypatch.setattr("kubernetes.config.load_kube_config", lambda **_: None)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        client = JobClient("team", "small", "u")
        with pytest.raises(ApiUnavailable, match="answered 500"):
            client.get()
        assert client.get() == stored
        assert client.apply_status({"training": {}}) == stored
        assert servers.connections == 2, "a sound one is stayed with"


class Cluster:
    """The job on an API server: what was reported last, and what the operator grants."""

    def __init__(self, **spec: Any) -> None:
        self.reported: Mapping[str, Any] = {}
        self._spec = spec
        self.granted = self.ready = 0
        self.pod_seconds = 0.0
        self.stop: dict[str, Any] = {"rounds": 6}
        self.seen = threading.Condition()
        self._told = 0
        self.ended = threading.Event()

    def get(self) -> dict[str, Any]:
        with self.seen:
            self._told = self.granted
            self.seen.notify_all()
        actors = {"granted": self.granted, "ready": self.ready, "podSeconds": self.pod_seconds}
        stored = job(stop=self.stop, **self._spec)
        stored["metadata"] |= {"namespace": "team", "uid": "u", "resourceVersion": "1"}
        return {**stored, "status": {"actors": actors}}

    def watch(self, _: str) -> Iterator[dict[str, Any]]:
        while not self.ended.wait(0.05):
            yield self.get()

    def end_watch(self) -> None:
        self.ended.set()

    def apply_status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        self.reported = status
        return self.get()

    def grant(self, actors: int) -> None:
        """Returns when the learner has heard of it."""
        self.granted = actors
        with self.seen:
            assert self.seen.wait_for(lambda: self._told == actors, SECONDS)


def test_a_refused_status_is_not_reported_again() -> None:
    """An earlier pod, or an older release, may have left it; the API server would refuse the whole report."""
    cluster = Cluster()
    left = {"training": {"round": 2, "boostingScore": 1e308, "updatedAt": "soon"}, "cost": {"total": -1}}
    with StatusReporter(cast("JobClient", cluster), left) as reporter:
        reporter.on_round_requested(round=3, actors=4)
    assert cluster.reported["training"]["round"] == 2
    assert "boostingScore" not in cluster.reported["training"]
    assert "cost" not in cluster.reported


def test_a_change_of_the_granted_or_ready_actors_is_reported() -> None:
    cluster, told = Cluster(), queue.SimpleQueue[tuple[int, int]]()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.mirror.on_actors(lambda actors: told.put((actors.granted, actors.ready)))
        for cluster.ready, granted in ((0, 8), (2, 8), (8, 8), (8, 4)):
            cluster.grant(granted)
            assert told.get(timeout=SECONDS) == (granted, cluster.ready)
    assert told.empty()


def paid(reporter: StatusReporter) -> float:
    pods = reporter.mirror.pods
    return pods.seconds if pods is not None else 0.0


def test_pod_seconds_grow_between_the_operators_writes() -> None:
    cluster = Cluster()
    reporter = StatusReporter(cluster, None)  # type: ignore[arg-type]
    assert reporter.mirror.pods is None, "not known is not nothing"
    assert reporter.mirror.drain is None
    with reporter:
        cluster.pod_seconds, cluster.ready = 100.0, 40
        _until(lambda: paid(reporter) > 110)
        cluster.pod_seconds, cluster.ready = 1000.0, 0
        _until(lambda: paid(reporter) == 1000)


def test_the_drain_after_the_end_is_told_apart_and_what_pods_were_charged() -> None:
    """The operator adds what they really take: it has to know what the learner has charged."""
    cluster, cost = Cluster(), RoundCost(1.0, 0.5)
    pods = PodUse(766.0, {"awake": 200.0, "draining": 10.0}, 0.275)
    outcome = Outcome("RoundsDone", "", True, 3, cost, 0.0, pods=pods, drain_seconds=90.0, estimated=0.125)
    before = {"cost": {"learner": 1.0, "actors": 0.25, "total": 1.25, "estimated": 0.5}}
    with StatusReporter(cast("JobClient", cluster), before) as reporter:
        reporter.on_run_ended(outcome)
    assert cluster.reported["cost"] == {
        "learner": 1.0,
        "actors": 0.375,
        "total": 1.375,
        "estimated": 0.125,
        "podSeconds": 766.0,
        "vcpuSeconds": 210.0,
    }
    after = {"cost": cluster.reported["cost"]}
    with StatusReporter(cast("JobClient", cluster), after) as reporter:
        reporter.on_run_ended(replace(outcome, finished=False, estimated=0.0, drain_seconds=0.0))
    assert "estimated" not in cluster.reported["cost"], "a run that goes on has an end that is yet to come"


def test_changed_limits_of_the_job_are_seen() -> None:
    cluster = Cluster()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        _until(lambda: reporter.mirror.limits is not None and reporter.mirror.limits.rounds == 6)
        cluster.stop = {"rounds": 0}  # which only an API server with another CRD takes
        cluster.grant(3)
        cluster.grant(4)
        assert reporter.mirror.limits is not None
        assert reporter.mirror.limits.rounds == 6
        cluster.stop = {"rounds": 9, "budgetDollars": 2}
        _until(lambda: reporter.mirror.limits is not None and reporter.mirror.limits.rounds == 9)
        assert reporter.mirror.limits.budget_dollars == 2


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_actors_that_do_not_answer_are_reported_until_one_does() -> None:
    cluster = Cluster()
    reasons = queue.SimpleQueue[str | None]()
    apply = cluster.apply_status

    def heard(status: Mapping[str, Any]) -> dict[str, Any]:
        reasons.put(status["training"].get("reason"))
        return apply(status)

    cluster.apply_status = heard  # type: ignore[method-assign]
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        for trouble, reason in (("no actor has answered yet", "ActorsSilent"), (None, None)):
            reporter.actors_silent(trouble)
            while reasons.get(timeout=SECONDS) != reason:
                pass
    assert "message" not in cluster.reported["training"]


def test_a_checkpoint_that_the_bucket_lacks_is_reported_until_it_has_one() -> None:
    """Actors that do not answer are told first: the operator acts on that."""
    cluster = Cluster()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.on_checkpoint_saved(round=3, location="x")
        reporter.on_checkpoint_missed(round=4, why="s3://runs: refused")
        _until(lambda: cluster.reported.get("training", {}).get("reason") == "CheckpointMissed")
        told = cluster.reported["training"]["message"]
        assert told == "the checkpoint of round 4 is not in the bucket. s3://runs: refused"
        assert cluster.reported["checkpoint"]["round"] == 3, "from which the run would go on"
        reporter.actors_silent("no actor has answered yet")
        _until(lambda: cluster.reported["training"]["reason"] == "ActorsSilent")
        reporter.actors_silent(None)
        _until(lambda: cluster.reported["training"]["reason"] == "CheckpointMissed")
        reporter.on_checkpoint_saved(round=5, location="x")
        _until(lambda: "reason" not in cluster.reported["training"])
    assert cluster.reported["checkpoint"]["round"] == 5


def test_a_run_reports_its_rollouts_and_whether_they_cut_episodes() -> None:
    cluster = Cluster()
    spec = resolve(load_job(job())).spec
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.starting(spec, round=0, version=0, actors=2)
        for number in (1, 2):
            reporter.on_round_done(round_report(number, cut_share=0.75))
    training = cluster.reported["training"]
    assert (training["rolloutLength"], training["envsPerActor"]) == (64, 4)
    assert training["learningRateAnneal"] is False
    assert training["cutShare"] == 0.75
    assert [entry.get("evaluationMean") for entry in training["history"]] == [25.0, None]


def test_the_final_evaluation_is_the_jobs_newest() -> None:
    """It comes after the last round, so no round's report has it."""
    cluster = Cluster()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.on_round_done(round_report(1))
        cost = RoundCost(0.0, 0.0)
        reporter.on_run_ended(Outcome("RoundsDone", "done", True, 1, cost, 0.0, evaluation=(40.0, 50.0)))
    assert cluster.reported["training"]["evaluationMean"] == 45.0


def test_progress_is_that_of_the_last_round_and_a_run_that_stands_still_has_no_time_left() -> None:
    cluster = Cluster()
    spec = resolve(load_job(job())).spec
    ahead = Forecast("envSteps", 0.29996, 71.6)
    with StatusReporter(cast("JobClient", cluster), None) as reporter:
        reporter.starting(spec, round=0, version=0, actors=8)
        reporter.on_round_done(round_report(1, forecast=ahead))
        reporter.close(SECONDS)
    assert cluster.reported["progress"] == {"percent": 29.9, "by": "envSteps", "etaSeconds": 72}
    left = dict(cluster.reported)
    still = {"percent": 29.9, "by": "envSteps"}
    with StatusReporter(cast("JobClient", cluster), left) as reporter:
        reporter.starting(spec, round=1, version=1, actors=8)
        reporter.conclude("Failed", "TrainingFailed", "the wheel came off")
        reporter.close(SECONDS)
    assert cluster.reported["progress"] == still
    with StatusReporter(cast("JobClient", cluster), left) as reporter:
        reporter.starting(spec, round=0, version=0, actors=8)  # from a checkpoint before that round
        reporter.close(SECONDS)
        assert "progress" not in cluster.reported
    with StatusReporter(cast("JobClient", cluster), left) as reporter:
        reporter.starting(spec, round=1, version=1, actors=8)
        reporter.conclude("Succeeded", "TargetReached", "it is good enough")
        reporter.close(SECONDS)
    assert cluster.reported["progress"] == {"percent": 100.0, "by": "targetReward", "etaSeconds": 0}


def test_a_restarted_learner_keeps_what_was_known_of_ready_actors() -> None:
    """metrics.csv, from which a new pod reads the rounds so far, does not say it."""
    cluster = Cluster()
    done = [round_report(number, late=5 - number) for number in (1, 2, 3)]
    with StatusReporter(cluster, None) as first:  # type: ignore[arg-type]
        for report in done:
            first.on_round_done(report)
    spec = resolve(load_job(job())).spec
    with StatusReporter(cluster, cluster.reported) as second:  # type: ignore[arg-type]
        second.starting(spec, round=2, version=2, actors=2)  # the third was after the last checkpoint
        second.on_run_started(round=2, rounds=6, history=[report.row() for report in done[:2]])
        second.on_round_done(round_report(3, late=7))
    history = cluster.reported["training"]["history"]
    assert [(entry["round"], entry["ready"]) for entry in history] == [(1, 4), (2, 5), (3, 1)]


def test_the_weights_version_is_that_of_the_newest_round_or_toggle_of_sharing() -> None:
    cluster, spec = Cluster(), resolve(load_job(job())).spec
    toggle = Regrouping(1, 2, True, {"a_0": ("a_0", "a_1")}, frozenset(["a_0"]), "returns fell", 9)
    with StatusReporter(cluster, None) as first:  # type: ignore[arg-type]
        first.starting(spec, round=0, version=0, actors=2)
        first.on_round_done(round_report(2, weights_version=8))
    assert cluster.reported["training"]["weightsVersion"] == 8
    with StatusReporter(cluster, cluster.reported) as again:  # type: ignore[arg-type]
        again.on_policies_regrouped(toggle)
    assert cluster.reported["training"]["weightsVersion"] == 9
    with StatusReporter(cluster, cluster.reported) as second:  # type: ignore[arg-type]
        second.starting(spec, round=1, version=1, actors=2)  # the second was after the last checkpoint
        second.on_run_started(round=1, rounds=6, history=[round_report(1).row()])
    assert cluster.reported["training"]["weightsVersion"] == 1


class Silent(Cluster):
    """The API server fails so often, from the learner's first word on; then it says what is given."""

    def __init__(self, failures: int, then: Exception | None = None) -> None:
        super().__init__()
        self.failures, self.then = failures, then

    def get(self) -> dict[str, Any]:
        self.failures -= 1
        if self.failures >= 0:
            raise ApiUnavailable("the API server answered 404: it starts")
        if self.then is not None:
            raise self.then
        return super().get()


def test_the_final_status_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "BACKOFF_SECONDS", (0.01, 0.1))
    cluster = Silent(3)
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.conclude("Succeeded", "RoundsDone", "all rounds are done")
        reporter.close(SECONDS)
    assert cluster.reported["training"]["state"] == "Succeeded"
    assert cluster.failures < 0


def test_a_job_that_is_gone_ends_its_run_once_and_is_not_waited_for() -> None:
    gone = queue.SimpleQueue[bool]()
    with StatusReporter(Silent(0, JobGone("it is gone")), None) as reporter:  # type: ignore[arg-type]
        reporter.mirror.on_gone(lambda: gone.put(True))
        assert gone.get(timeout=SECONDS)
        began = time.monotonic()
        reporter.conclude("Running", "Interrupted", "its job is gone")
        reporter.close(SECONDS)
        assert time.monotonic() - began < SECONDS / 2
        assert gone.empty()
        reporter.mirror.on_gone(lambda: gone.put(False))  # of a training that begins only now
        assert gone.get(timeout=SECONDS) is False


def test_a_grant_after_the_last_round_does_not_keep_the_end_from_being_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = Cluster(backend={"type": "Knative"})

    async def train(*_: Any, **__: Any) -> tuple[Outcome, None]:
        await asyncio.to_thread(cluster.grant, 3)
        return Outcome("RoundsDone", "all rounds are done", True, 6, RoundCost(0.0, 0.0), 0.0), None

    class Late(StatusReporter):
        """Closed after another grant, when the training's event loop has ended."""

        def close(self, seconds: float) -> None:
            cluster.grant(5)
            self.conclude("Succeeded", "RoundsDone", "all rounds are done")
            super().close(seconds)

    monkeypatch.setattr("nitro_learner.run.session.train", train)
    assert trained(monkeypatch, cluster, Late, tmp_path / "run") == 0
    assert cluster.reported["training"]["state"] == "Succeeded"


def test_a_message_has_no_character_that_the_api_server_refuses_to_apply() -> None:
    cluster = Cluster()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.conclude("Failed", "TrainingFailed", "the robot \U0001f916 stumbles, é")
        reporter.close(30.0)
    assert cluster.reported["training"]["message"] == "the robot \ufffd stumbles, é"


def test_what_the_check_has_found_is_reported_and_a_later_pod_knows_of_a_fault() -> None:
    cluster = Cluster()
    found = Report(environment={"id": "x"}, faults=["step hangs"], unchecked={"its ends": "no time"})
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        assert not reporter.faulty
        reporter.environment_checked(found)
        reporter.close(30.0)
    told = cluster.reported["training"]
    assert told["check"] == "EnvironmentFaulty"
    assert told["checkMessage"].startswith("step hangs. Mend the environment, suspend the job")
    assert told["checkMessage"].endswith("not checked: its ends (no time)")
    with StatusReporter(cluster, {"training": told}) as reporter:  # type: ignore[arg-type]
        assert reporter.faulty
        reporter.environment_checked(Report(environment={"id": "x"}, warnings=["it is slow"]))
        reporter.close(30.0)
    told = cluster.reported["training"]
    assert told["check"] == "EnvironmentSound"
    assert told["checkMessage"] == "nothing is wrong with it, as far as it was checked. it is slow"


def test_what_was_not_checked_is_neither_sound_nor_faulty() -> None:
    cluster = Cluster()
    with StatusReporter(cluster, None) as reporter:  # type: ignore[arg-type]
        reporter.environment_checked(not_checked("the image is old"))
        reporter.close(30.0)
    assert cluster.reported["training"]["check"] == "NotChecked"
    assert cluster.reported["training"]["checkMessage"] == "not checked: all of it (the image is old)"
