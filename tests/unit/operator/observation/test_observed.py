"""Which children belong to a job, and which a deleted job of its name has left."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.kinds import LEARNER_JOB, POD, TRAINING_JOB, VOLUME_CLAIM, JobKey
from nitro_operator.observation.observed import actor_pods, actors_of, observe
from operator_objects import UID, learner_job, make_job, pod

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
    assert found.foreign == ["Job hopper-learner"]


@pytest.mark.parametrize(
    ("found", "foreign"),
    [
        (claim(training_job("old")), ["PersistentVolumeClaim hopper-checkpoint"]),
        (claim(training_job(UID)), []),
        (claim(), []),  # it was to outlive the job that it was made for
        (claim({"kind": "ConfigMap", "uid": "somebody"}), []),
    ],
)
def test_a_claim_that_goes_with_a_deleted_job_is_not_taken_over(found: Object, foreign: list[str]) -> None:
    cache = Cache()
    cache.put(VOLUME_CLAIM, found)
    assert observe(cache, make_job()).foreign == foreign


def test_a_running_learner_keeps_its_claim() -> None:
    cache = Cache()
    cache.put(VOLUME_CLAIM, claim(training_job("old")))
    cache.put(LEARNER_JOB, learner_job(namespace="team", labels=LABELS))
    assert observe(cache, make_job()).foreign == []


def test_actor_pods_that_are_older_than_the_job_are_a_deleted_jobs() -> None:
    """They have no owner that names a job. The API server counts creation times in whole seconds."""
    cache = Cache()
    for name, created in (("old", "2025-12-31T23:59:59Z"), ("same", "2026-01-01T00:00:00Z")):
        one = pod("actor", name=name)
        one["metadata"]["creationTimestamp"] = created
        cache.put(POD, one)
    assert [one["metadata"]["name"] for one in observe(cache, make_job()).actor_pods] == ["same"]
    assert len(actor_pods(cache, JobKey("team", "hopper"))) == 2, "all of them take room"


@pytest.mark.parametrize(
    ("told", "actors"), [("8", 8), ("1000000", 1), ("999", 32), ("9" * 5000, 1), ("-2", 1), ("x", 1)]
)
def test_a_pod_has_no_more_actors_than_a_job_may_ask_for(told: str, actors: int) -> None:
    found = pod("actor")
    found["metadata"]["annotations"] = {"nitro.dev/actors-per-pod": told}
    assert actors_of(found) == actors
