"""Objects of other people that have the names of a job's children: they stay what they are."""

from __future__ import annotations

import json

import pytest

from cluster_support import Cluster
from operator_support import Object, OperatorProcess, eventually, job

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
JOB, KNATIVE = "job", "services.serving.knative.dev"
LABEL = {"nitro.dev/job": "taken"}


def stranger(kind: str, name: str, labels: Object | None = None) -> Object:
    """What a user may have made: the same shape as the operator's own, without its marks."""
    found: Object = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels or {}}}
    if kind == "ServiceAccount":
        found["automountServiceAccountToken"] = False
    elif kind == "PersistentVolumeClaim":
        found["spec"] = CLAIM
    elif kind == "Role":
        found |= {"apiVersion": "rbac.authorization.k8s.io/v1", "rules": []}
    return found


@pytest.mark.parametrize("labels", [None, LABEL], ids=["unlabelled", "labelled"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ServiceAccount", "taken-learner"),
        ("PersistentVolumeClaim", "taken-checkpoint"),
        ("Role", "taken-learner"),
    ],
)
def test_an_object_of_another_owner_is_named_and_not_changed(
    operator: OperatorProcess, cluster: Cluster, kind: str, name: str, labels: Object | None
) -> None:
    cluster.apply(stranger(kind, name, labels))
    before = cluster.get(kind.lower(), name) or {}
    volume = {"pvc": {"retain": False}}  # so that the claim would be the job's, and go with it
    cluster.apply(job("taken", learner={"checkpoint": volume}))
    eventually(lambda: cluster.condition("taken", "LearnerReady").get("reason") == "NameTaken")
    said = cluster.condition("taken", "LearnerReady")["message"]
    assert f"{kind} {name}" in said
    assert "Delete or rename it, or give the job another name" in said
    operator.wait_for_resyncs(2)
    assert cluster.get(kind.lower(), name) == before
    assert cluster.get("job", "taken-learner") is None
    cluster.kubectl("delete", kind, name, "--wait=false")
    if kind == "PersistentVolumeClaim":  # no controller is here that would take its finalizer off
        cluster.patch("pvc", name, {"metadata": {"finalizers": None}})
    eventually(lambda: cluster.get("job", "taken-learner"), what="the start once the name is free")
    uid = (cluster.get("ntj", "taken") or {})["metadata"]["uid"]
    owners = (cluster.get(kind.lower(), name) or {})["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [uid]


def test_an_object_with_another_owner_is_not_adopted_by_its_labels(
    operator: OperatorProcess, cluster: Cluster
) -> None:
    cluster.apply(job("other", suspend=True))
    theirs = stranger(
        "ServiceAccount",
        "mine-learner",
        {"nitro.dev/job": "mine", "app.kubernetes.io/managed-by": "nitro-operator"},
    )
    other = cluster.get("ntj", "other") or {}
    owner = {
        "apiVersion": other["apiVersion"],
        "kind": other["kind"],
        "name": "other",
        "uid": other["metadata"]["uid"],
    }
    theirs["metadata"]["ownerReferences"] = [owner]
    cluster.apply(theirs)
    cluster.apply(job("mine"))
    eventually(lambda: cluster.condition("mine", "LearnerReady").get("reason") == "NameTaken")
    assert "NitroTrainingJob other" in cluster.condition("mine", "LearnerReady")["message"]
    operator.wait_for_resyncs(1)
    found = (cluster.get("serviceaccount", "mine-learner") or {})["metadata"]["ownerReferences"]
    assert [ref["uid"] for ref in found] == [owner["uid"]]


def test_children_of_the_release_before_are_recognised_after_a_restart(
    operator: OperatorProcess, cluster: Cluster
) -> None:
    cluster.apply(job("older"))
    eventually(lambda: cluster.get("job", "older-learner"))
    operator.kill()
    account = cluster.get("serviceaccount", "older-learner") or {}
    cluster.kubectl("delete", "serviceaccount", "older-learner")
    # That release applied its children, without creating them first.
    meta = {key: account["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    again = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": meta,
        "automountServiceAccountToken": True,
    }
    applied = ("apply", "--server-side", "--field-manager=nitro-operator", "-f", "-")
    cluster.kubectl(*applied, input=json.dumps(again))
    uid = (cluster.get("serviceaccount", "older-learner") or {})["metadata"]["uid"]
    operator.start()

    def mended() -> bool:
        found = cluster.get("serviceaccount", "older-learner") or {}
        return found["metadata"]["uid"] == uid and found["automountServiceAccountToken"] is False

    eventually(mended, what="drift of an object of the release before is repaired")
    assert cluster.condition("older", "LearnerReady").get("reason") != "NameTaken"


def test_objects_of_a_deleted_job_of_the_same_name_are_adopted(cluster: Cluster) -> None:
    cluster.apply(job("again"))
    eventually(lambda: cluster.get("job", "again-learner"))
    claim = (cluster.get("pvc", "again-checkpoint") or {})["metadata"]["uid"]
    cluster.kubectl("delete", "ntj", "again")
    # No garbage collector is here: what keeps a new learner from starting is removed by hand, the rest stays.
    cluster.kubectl("delete", "job", "again-learner", "--cascade=background")
    cluster.kubectl("delete", "services.serving.knative.dev", "again-actors")
    cluster.apply(job("again"))
    eventually(lambda: cluster.get("job", "again-learner"), what="the learner of the second job")
    uid = (cluster.get("ntj", "again") or {})["metadata"]["uid"]
    for kind, name in (
        ("serviceaccount", "again-learner"),
        ("service", "again-redis"),
        ("role", "again-learner"),
    ):
        owners = (cluster.get(kind, name) or {})["metadata"]["ownerReferences"]
        assert [ref["uid"] for ref in owners] == [uid], kind
    kept = (cluster.get("pvc", "again-checkpoint") or {})["metadata"]
    assert kept["uid"] == claim
    assert "ownerReferences" not in kept


def test_what_kubectl_has_orphaned_is_removed_before_a_new_job_of_that_name_starts(cluster: Cluster) -> None:
    cluster.apply(job("orphans"))
    old = cluster.start_learner("orphans")
    cluster.start_knative("orphans")
    actor = cluster.start_actor("orphans")
    cluster.kubectl("delete", "ntj", "orphans", "--wait=false")
    for kind, name in ((JOB, "orphans-learner"), (KNATIVE, "orphans-actors"), ("service", "orphans-redis")):
        # What the garbage collector does for --cascade=orphan.
        eventually(lambda kind=kind, name=name: cluster.get(kind, name))
        cluster.patch(kind, name, {"metadata": {"ownerReferences": None}})
    secret = cluster.credentials("orphans")["metadata"]["name"]
    former = (cluster.get(JOB, "orphans-learner") or {})["metadata"]["uid"]
    cluster.apply(job("orphans"))
    eventually(lambda: cluster.condition("orphans", "LearnerReady").get("reason") == "Waiting")
    said = cluster.condition("orphans", "LearnerReady")["message"]
    for named in ("Job orphans-learner", "Service orphans-actors", f"Pod {old['metadata']['name']}"):
        assert named in said
    cluster.collect_job("orphans")
    cluster.collect_service("orphans")
    eventually(lambda: f"Pod {actor['metadata']['name']}" in _waiting(cluster, "orphans"))
    assert cluster.get(JOB, "orphans-learner") is None, (
        "an actor of the former job would answer the new learner"
    )
    cluster.delete_pod(actor)
    new = eventually(lambda: cluster.get(JOB, "orphans-learner"))
    assert new["metadata"]["uid"] != former
    assert cluster.credentials("orphans")["metadata"]["name"] != secret
    owners = (cluster.get("service", "orphans-redis") or {})["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [(cluster.get("ntj", "orphans") or {})["metadata"]["uid"]]


def _waiting(cluster: Cluster, name: str) -> str:
    found = cluster.condition(name, "LearnerReady")
    return str(found["message"]) if found.get("reason") == "Waiting" else ""


def test_a_claim_of_the_users_own_is_mounted_and_not_owned(cluster: Cluster) -> None:
    cluster.apply(stranger("PersistentVolumeClaim", "own-checkpoint"))
    cluster.apply(job("own", learner={"checkpoint": {"pvc": {"claimName": "own-checkpoint"}}}))
    learner = eventually(lambda: cluster.get("job", "own-learner"))
    volumes = learner["spec"]["template"]["spec"]["volumes"]
    assert {"claimName": "own-checkpoint"} in [volume.get("persistentVolumeClaim") for volume in volumes]
    assert "ownerReferences" not in (cluster.get("pvc", "own-checkpoint") or {})["metadata"]
