"""A job that cannot run is mended and resumed, and one that starts from another, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import Object, OperatorProcess, eventually, install_knative, job

KNATIVE = "services.serving.knative.dev"
MORE = {"limits": {"memory": "4Gi"}}


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str) -> Cluster:
    install_knative(apiserver)
    return Cluster(apiserver, namespace)


def container(cluster: Cluster, kind: str, name: str) -> Object:
    child = cluster.get(kind, name)
    assert child is not None
    made: Object = child["spec"]["template"]["spec"]["containers"][0]
    return made


def run_directory(cluster: Cluster, name: str) -> str:
    variables = {one["name"]: one.get("value") for one in container(cluster, "job", name)["env"]}
    return str(variables["NITRO_RUN_DIR"])


def collect_actors(cluster: Cluster, name: str) -> None:
    """Finish the deletion of a Knative Service, as the garbage collector would."""
    eventually(
        lambda: "deletionTimestamp" in (cluster.get(KNATIVE, f"{name}-actors") or {})["metadata"],
        what="deletion of the actors' Service",
    )
    cluster.kubectl("delete", "revisions.serving.knative.dev", "--ignore-not-found", f"{name}-actors-v1")
    cluster.patch(KNATIVE, f"{name}-actors", {"metadata": {"finalizers": None}})


def test_a_job_goes_on_from_its_checkpoint_with_what_was_changed_while_it_was_suspended(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    with OperatorProcess(apiserver.kubeconfig, tmp_path / "operator.log") as operator:
        # A failed job: its learner needs more memory than it may use, and its actors' image is misspelt.
        cluster.apply(job("ill", actor={"image": "registry.test/actr:1"}))
        pod = cluster.start_learner("ill")
        folder = run_directory(cluster, "ill-learner")
        cluster.end_learner("ill", pod, code=137, job_condition="Failed")
        eventually(lambda: cluster.status("ill").get("phase") == "Failed", what="phase Failed")
        assert "pod settings can change" in cluster.condition("ill", "Failed")["message"]
        cluster.patch_spec("ill", suspend=True)
        cluster.collect_job("ill")
        eventually(lambda: cluster.status("ill")["phase"] == "Suspended", what="phase Suspended")
        cluster.patch_spec(
            "ill",
            suspend=False,
            learner={"resources": MORE, "nodeSelector": {"size": "large"}, "backoffLimit": 5},
            actor={"image": "registry.test/actor:1", "resources": MORE},
        )
        collect_actors(cluster, "ill")
        mended = eventually(lambda: cluster.get("job", "ill-learner"), what="the mended learner")
        assert mended["spec"]["backoffLimit"] == 5
        assert mended["spec"]["template"]["spec"]["nodeSelector"] == {"size": "large"}
        assert container(cluster, "job", "ill-learner")["resources"]["limits"]["memory"] == "4Gi"
        assert run_directory(cluster, "ill-learner") == folder, "its checkpoints are there"
        actor = container(cluster, KNATIVE, "ill-actors")
        assert (actor["image"], actor["resources"]["limits"]["memory"]) == ("registry.test/actor:1", "4Gi")
        cluster.start_learner("ill")
        eventually(lambda: cluster.status("ill")["phase"] == "Running", what="phase Running")

        # The operator is away while a running job is suspended, changed and resumed.
        operator.kill()
        cluster.patch_spec("ill", suspend=True)
        cluster.patch_spec("ill", learner={"image": "registry.test/learner:mine"})
        cluster.patch_spec("ill", suspend=False)
        operator.start()
        cluster.collect_job("ill")
        eventually(lambda: cluster.get("job", "ill-learner"), what="the learner of the other image")
        assert container(cluster, "job", "ill-learner")["image"] == "registry.test/learner:mine"
        cluster.start_learner("ill")
        eventually(lambda: cluster.status("ill")["phase"] == "Running", what="phase Running again")


LOCAL = {"type": "Local"}


def source_mounts(cluster: Cluster, name: str) -> list[Object]:
    """The mounts of another run in a learner's container."""
    mounts = container(cluster, "job", name)["volumeMounts"]
    return [mount for mount in mounts if mount["mountPath"] == "/resume-from"]


def checkpoint(cluster: Cluster, name: str) -> None:
    """A learner reports its first checkpoint."""
    cluster.patch("ntj", name, {"status": {"checkpoint": {"round": 0}}}, status=True)


def test_a_job_waits_for_the_checkpoint_of_another_one_and_reads_it_until_it_has_its_own(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    def waits(name: str, reason: str) -> str:
        eventually(lambda: cluster.condition(name, "Ready").get("reason") == reason, what=f"{name}: {reason}")
        assert cluster.status(name)["phase"] == "Pending"
        assert cluster.get("job", f"{name}-learner") is None
        return str(cluster.condition(name, "Ready")["message"])

    resume_from = {"job": "first"}
    other = job("other", backend=LOCAL, resumeFrom=resume_from, network={"hiddenSizes": [8]})
    with OperatorProcess(apiserver.kubeconfig, tmp_path / "operator.log"):
        cluster.apply(job("second", backend=LOCAL, resumeFrom=resume_from))
        assert "NitroTrainingJob first does not exist in this namespace" in waits("second", "SourceMissing")
        cluster.apply(job("first", backend=LOCAL), other)
        waits("second", "SourceWithoutCheckpoint")
        said = waits("other", "SourceDiffers")
        assert "spec.network.hiddenSizes is [64, 64] there and [8] here" in said

        first = eventually(lambda: cluster.get("ntj", "first"), what="the first job")
        checkpoint(cluster, "first")
        eventually(lambda: cluster.get("job", "second-learner"), what="the second learner")
        (mount,) = source_mounts(cluster, "second-learner")
        assert mount["readOnly"] is True
        assert mount["subPath"] == f"first-{first['metadata']['uid']}"

        # With a checkpoint of its own it needs the other job no longer.
        cluster.start_learner("second")
        checkpoint(cluster, "second")
        cluster.patch_spec("second", suspend=True)
        cluster.collect_job("second")
        cluster.kubectl("delete", "ntj", "first", "--wait=false")
        eventually(lambda: cluster.get("ntj", "first") is None, what="the first job is gone")
        cluster.patch_spec("second", suspend=False)
        eventually(lambda: cluster.get("job", "second-learner"), what="the resumed learner")
        assert source_mounts(cluster, "second-learner") == []
