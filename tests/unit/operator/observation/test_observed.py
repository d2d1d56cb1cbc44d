"""Which children belong to a job, and which a deleted job of its name has left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nitro_operator import builders
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.kinds import LEARNER_JOB, POD, TRAINING_JOB, VOLUME_CLAIM, JobKey
from nitro_operator.observation.metering import starting
from nitro_operator.observation.observed import (
    Observed,
    actor_pods,
    actors_of,
    named_secret,
    observe,
    stranger,
)
from operator_objects import UID, actor_pod, learner_job, make_job, make_view, pod

Object = dict[str, Any]
LABELS = {"nitro.dev/job": "hopper"}


def claim(*owners: Object) -> Object:
    meta = {"name": "hopper-checkpoint", "namespace": "team", "uid": "claim", "labels": LABELS}
    return {"metadata": {**meta, "ownerReferences": list(owners)}}


def training_job(uid: str) -> Object:
    return {"kind": TRAINING_JOB.kind, "uid": uid}


def test_the_learners_job_of_a_deleted_job_is_foreign() -> None:
    cache = Cache()
    cache.put(LEARNER_JOB, learner_job(namespace="team", labels=LABELS, ownerReferences=[{"uid": "old"}]))
    found = observe(cache, make_job())
    assert found.learner_job is None
    assert [one["metadata"]["name"] for one in found.foreign] == ["hopper-learner"]


@pytest.mark.parametrize(
    ("found", "foreign"),
    [
        (claim(training_job("old")), ["hopper-checkpoint"]),
        (claim(training_job(UID)), []),
        (claim(), []),  # it was to outlive the job that it was made for
        (claim({"kind": "ConfigMap", "uid": "somebody"}), []),
    ],
)
def test_a_claim_that_goes_with_a_deleted_job_is_not_taken_over(found: Object, foreign: list[str]) -> None:
    cache = Cache()
    cache.put(VOLUME_CLAIM, found)
    assert [one["metadata"]["name"] for one in observe(cache, make_job()).foreign] == foreign


def test_a_running_learner_keeps_its_claim() -> None:
    cache = Cache()
    cache.put(VOLUME_CLAIM, claim(training_job("old")))
    cache.put(LEARNER_JOB, learner_job(namespace="team", labels=LABELS))
    assert observe(cache, make_job()).foreign == []


@pytest.mark.parametrize("component", ["learner", "actor"])
def test_pods_of_a_deleted_job_of_the_same_name_are_foreign(component: str) -> None:
    """Pods of earlier releases have no label of their run. Creation times are in whole seconds."""
    cache = Cache()
    before, same = "2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z"
    for name, created, run in (
        ("old", before, None),
        ("unlabelled", same, None),
        ("former", same, "another-uid"),
        ("mine", before, UID),  # by a clock that was set
    ):
        one = pod(component, name=name)
        one["metadata"]["creationTimestamp"] = created
        if run is not None:
            one["metadata"]["labels"]["nitro.dev/run"] = run
        cache.put(POD, one)
    found = observe(cache, make_job())
    assert [one["metadata"]["name"] for one in found.foreign] == ["old", "former"]
    own = found.actor_pods if component == "actor" else found.former_pods
    assert [one["metadata"]["name"] for one in own] == ["unlabelled", "mine"]
    if component == "actor":
        assert len(actor_pods(cache, JobKey("team", "hopper"))) == 4, "all of them take room"


OURS = LABELS | {"app.kubernetes.io/managed-by": "nitro-operator"}
FORMER = {"kind": TRAINING_JOB.kind, "name": "hopper", "uid": "old"}


@pytest.mark.parametrize(
    ("foreign", "strange"),
    [
        (learner_job(labels=OURS, ownerReferences=[FORMER]), False),
        (learner_job(labels=OURS, ownerReferences=[]), False),  # an orphan, which the operator deletes
        (learner_job(labels=LABELS, ownerReferences=[]), True),
        (learner_job(labels=OURS, ownerReferences=[{"kind": "CronJob", "name": "x", "uid": "x"}]), True),
        (learner_job(labels=LABELS, ownerReferences=[], deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (pod("learner"), False),
        (pod("learner") | {"metadata": {"ownerReferences": []}}, True),
    ],
)
def test_a_stranger_is_what_nobody_deletes(foreign: Object, strange: bool) -> None:
    assert stranger({"kind": "Job"} | foreign) is strange


def test_a_pod_that_has_ended_holds_up_no_new_job() -> None:
    cache = Cache()
    ended = pod("learner", phase="Failed")
    ended["metadata"]["labels"]["nitro.dev/run"] = "another-uid"
    cache.put(POD, ended)
    assert observe(cache, make_job()).foreign == []


def test_the_secret_is_the_one_that_the_pods_were_made_with() -> None:
    view = make_view()
    learner, service = builders.learner_job(view, None), builders.actor_service(view)
    assert view.credentials == f"hopper-{UID[:8]}-credentials"
    other = replace(view, credentials="hopper-0a1b2c3d-credentials")
    assert named_secret(Observed()) is None
    assert named_secret(Observed(learner_job=learner)) == view.credentials
    assert named_secret(Observed(actor_service=service)) == view.credentials
    renewed = Observed(learner_job=builders.learner_job(other, None), actor_service=service)
    assert named_secret(renewed) == other.credentials
    learner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert named_secret(Observed(learner_job=learner)) is None


@pytest.mark.parametrize(
    ("told", "actors"), [("8", 8), ("1000000", 1), ("999", 32), ("9" * 5000, 1), ("-2", 1), ("x", 1)]
)
def test_a_pod_has_no_more_actors_than_a_job_may_ask_for(told: str, actors: int) -> None:
    found = pod("actor")
    found["metadata"]["annotations"] = {"nitro.dev/actors-per-pod": told}
    assert actors_of(found) == actors


def test_a_pod_starts_while_it_is_on_a_node_and_not_ready() -> None:
    new, ready, going, unscheduled, ended = (actor_pod(name) for name in ("a", "b", "c", "d", "e"))
    for one in (new, going, unscheduled, ended):
        one["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    del unscheduled["status"]["startTime"]
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    ended["status"]["phase"] = "Failed"
    ready["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert [starting(one) for one in (new, ready, going, unscheduled, ended)] == [True, *[False] * 4]
