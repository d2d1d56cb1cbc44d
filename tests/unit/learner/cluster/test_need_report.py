"""The needs of a run in its job's status, and the awake pods that the job names."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from nitro_api import JobStatus, load_job, resolve
from nitro_learner.cluster.job import JobClient
from nitro_learner.cluster.job_mirror import GrantedActors, JobMirror
from nitro_learner.cluster.status_reporter import StatusReporter
from nitro_learner.training.needs import ActorNeed, LaterNeed
from report_support import report
from train_support import job

SECONDS = 120.0


class Cluster:
    """Keeps every report."""

    def __init__(self) -> None:
        self.reports = queue.SimpleQueue[Mapping[str, Any]]()
        self.silent = threading.Event()
        self.ended = threading.Event()

    def get(self) -> dict[str, Any]:
        stored = job()
        stored["metadata"] |= {"namespace": "team", "uid": "u", "resourceVersion": "1"}
        return stored

    def watch(self, _: str) -> Iterator[dict[str, Any]]:
        while not self.ended.wait(0.05):
            yield self.get()

    def end_watch(self) -> None:
        self.ended.set()

    def apply_status(self, status: Mapping[str, Any]) -> dict[str, Any]:
        self.reports.put(status)
        return self.get()


def reported(cluster: Cluster) -> tuple[Any, Any]:
    """What the next report says of the needs. The API takes it as it is."""
    status = cluster.reports.get(timeout=SECONDS)
    while "requests" not in status["training"]:  # before the run starts
        assert status["training"].get("needsNow", 0) == 0
        status = cluster.reports.get(timeout=SECONDS)
    assert JobStatus.model_validate(status).to_dict()["training"] == status["training"]
    training = status["training"]
    assert ("neededAt" in training) == ("needsNow" in training)
    return training.get("needsNow"), training.get("needsLater")


def spec(backend: str) -> Any:
    return resolve(load_job(job(backend={"type": backend}))).spec


def test_every_change_of_the_need_is_reported_at_once() -> None:
    cluster = Cluster()
    left = {"needsNow": 16, "neededAt": "2026-01-01T00:00:00.000000Z"}
    with StatusReporter(cast("JobClient", cluster), {"training": left}) as reporter:
        reporter.starting(spec("Knative"), round=0, version=0, actors=3)
        assert reported(cluster) == (0, []), "not what a pod that crashed has left"
        reporter.on_need_changed(ActorNeed(0, (LaterNeed(0.0, 3),)))
        assert reported(cluster) == (0, [{"afterSeconds": 0.0, "actors": 3}])
        reporter.on_need_changed(ActorNeed(3))
        assert reported(cluster) == (3, [])
        later = LaterNeed(1.23456, 2), LaterNeed(4.0, 3)
        reporter.on_need_changed(ActorNeed(1, later))
        expected = [{"afterSeconds": 1.235, "actors": 2}, {"afterSeconds": 4.0, "actors": 3}]
        assert reported(cluster) == (1, expected)
        reporter.conclude("Running", "Interrupted", "another pod goes on")
        assert reported(cluster) == (0, [])


@pytest.mark.parametrize("backend", ["Local", "Lambda"])
def test_actors_that_are_no_pods_have_no_needs(backend: str) -> None:
    cluster = Cluster()
    function = {"functionName": "f", "region": "eu-west-1", "manage": False}
    given = {"type": backend} | ({"lambda": function} if backend == "Lambda" else {})
    with StatusReporter(cast("JobClient", cluster), None) as reporter:
        reporter.starting(resolve(load_job(job(backend=given))).spec, round=0, version=0, actors=3)
        assert reported(cluster) == (None, None)
        reporter.on_need_changed(ActorNeed(3))
        reporter.conclude("Succeeded", "RoundsDone", "done")
        assert reported(cluster) == (None, None)


def test_the_mirror_passes_addresses_on_at_every_look() -> None:
    told: list[GrantedActors] = []
    mirror = JobMirror()
    mirror.on_actors(told.append)

    def look(**actors: Any) -> None:
        mirror.take(job() | {"status": {"actors": actors}})

    look(ready=2)
    assert not told, "nothing is granted"
    look(granted=2, ready=2)
    look(granted=2, ready=2)
    assert told == [GrantedActors(2, 2, None)]
    for _ in range(2):
        look(granted=2, ready=2, addresses=["10.0.0.1", "fd00::2"])
    look(granted=2, ready=2, addresses=[])
    awake = GrantedActors(2, 2, ("10.0.0.1", "fd00::2"))
    assert told[1:] == [awake, awake, GrantedActors(2, 2, ())]
    later: list[GrantedActors] = []
    mirror.on_actors(later.append)
    assert later == [GrantedActors(2, 2, ())]


def test_rounds_that_the_time_limit_cuts_are_reported_until_one_is_not() -> None:
    cluster = Cluster()
    with StatusReporter(cast("JobClient", cluster), None) as reporter:
        reporter.starting(spec("Knative"), round=0, version=0, actors=3)
        for number, timeouts, told in ((1, 2, ("RolloutsCut", CUT)), (2, 0, (None, None))):
            reporter.on_round_done(report(number, retried={"timeout": timeouts}, seconds_actor=41.25))
            training: dict[str, Any] = {}
            while training.get("round") != number:
                training = cluster.reports.get(timeout=SECONDS)["training"]
            assert (training.get("reason"), training.get("message")) == told


CUT = (
    "2 requests to the 8 actors of round 1 were not answered within spec.actor.timeoutSeconds, 60 s "
    "(others took 41.2 s)"
)
