"""A job that is recorded in an MLflow file store, on a volume that outlives it."""

from __future__ import annotations

from pathlib import Path

import volumes
from harness import Cluster
from jobs import TINY_LEARNER
from namespaces import Start

import nitro_learner as nitro
from tracking_support import mlflow_client, mlflow_history

CLAIM = "mlflow"
ROUNDS = 2


def test_a_job_is_recorded_in_a_file_store_on_a_volume(
    cluster: Cluster, namespace: str, start: Start, disks: volumes.Disks, tmp_path: Path
) -> None:
    disks.provide(namespace, CLAIM)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": spec}
    cluster.create(claim, namespace)
    start(
        "tracked",
        {
            "environment": {"id": "CartPole-v1", "rolloutLength": 128, "envsPerActor": 2},
            "stop": {"rounds": ROUNDS},
            "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 2},
            "evaluation": {"episodes": 1},
            "backend": {"type": "Local", "local": {"processes": 1}},
            "tracking": {"mlflow": {"trackingUri": "file:///mlflow"}},
            "learner": {
                "image": cluster.learner_with("rllib", "mlflow"),
                "resources": TINY_LEARNER,
                "volumes": [{"name": "mlflow", "persistentVolumeClaim": {"claimName": CLAIM}}],
                "volumeMounts": [{"name": "mlflow", "mountPath": "/mlflow"}],
                "checkpoint": {"pvc": {"size": "1Gi", "retain": False}},
            },
        },
    )
    job = cluster.until_phase(namespace, "tracked", "Succeeded")
    volumes.copy(cluster, namespace, CLAIM, tmp_path)
    client = mlflow_client(tmp_path)
    (run,) = client.search_runs([client.get_experiment_by_name("nitro").experiment_id])
    history = job["status"]["training"]["history"]
    steps = [(entry["envSteps"], float(entry["round"])) for entry in history]
    assert mlflow_history(client, run.info.run_id, "run/round") == steps
    assert len(steps) == ROUNDS
    assert run.info.status == "FINISHED"
    assert run.data.tags["nitro.run"] == job["metadata"]["uid"]
    (policy,) = tmp_path.glob("*/*/artifacts/policy/policy.safetensors")
    assert nitro.load(policy).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
