"""A run in a bucket whose keys are replaced meanwhile: the real kubelet passes the Secret's contents on."""

from __future__ import annotations

import pytest
from harness import Cluster, phase_of, round_of, says
from jobs import hopper
from lambda_service import address
from namespaces import Start

from aws_support import secret
from s3_door import BUCKET, door, keys


@pytest.mark.full
def test_a_running_learner_takes_up_the_new_keys(cluster: Cluster, namespace: str, start: Start) -> None:
    with door("0.0.0.0") as store:
        cluster.create(secret("keys", **keys("OLD")), namespace)
        where = {
            "bucket": BUCKET,
            "region": "us-east-1",
            "endpointUrl": f"http://{address(cluster)}:{store.port}",
            "credentialsSecret": "keys",
        }
        spec = hopper(rounds=100_000, actors=(1, 2, 3))
        spec["learner"]["checkpoint"] = {"s3": where}
        start("kept", spec)
        cluster.until_round(namespace, "kept", 2)
        store.accepted = "NEW"
        told = cluster.until_says(namespace, "kept", "CheckpointMissed", "InvalidAccessKeyId", BUCKET)
        assert (told["type"], told["status"]) == ("LearnerReady", "True")
        job = cluster.job(namespace, "kept")
        kept = job["status"]["checkpoint"]["round"]
        assert kept < round_of(job)
        cluster.until_round(namespace, "kept", round_of(job) + 10)  # more than five checkpoints
        assert cluster.job(namespace, "kept")["status"]["checkpoint"]["round"] == kept
        cluster.core.patch_namespaced_secret("keys", namespace, {"stringData": keys("NEW")})
        job = cluster.until_job(
            namespace,
            "kept",
            lambda job: job if job["status"]["checkpoint"]["round"] > kept else None,
            what="the new keys are used",
        )
        cluster.until_job(
            namespace,
            "kept",
            lambda job: says(job, "Running") and not says(job, "CheckpointMissed"),
            what="calm",
        )
        (learner,) = cluster.pods(namespace, "kept", "learner")
        assert all(not one["restartCount"] for one in learner["status"]["containerStatuses"])
        cluster.patch_job(namespace, "kept", {"stop": {"rounds": round_of(job) + 3}})
        job = cluster.until_phase(namespace, "kept", "Succeeded")
        assert phase_of(job) == "Succeeded"
        folder = job["status"]["checkpoint"]["location"].removeprefix(f"s3://{BUCKET}/")
        assert f"{folder}/checkpoints/round-{round_of(job):06d}.safetensors" in store.names()
