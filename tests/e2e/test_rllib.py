"""Jobs whose learner is Ray RLlib's, through Knative: another image, and all else as for our learner."""

from __future__ import annotations

from harness import Cluster
from jobs import hopper
from namespaces import Start

ROUNDS = 5


def test_rllib_learns_from_actors_that_follow_the_score(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    image = cluster.learner_with("rllib", "mlflow")
    spec = hopper(
        rounds=ROUNDS,
        actors=(3, 6, 12),
        algorithm={"name": "rllib/ppo", "rllib": {"num_epochs": 2, "minibatch_size": 256}},
        learner={"image": image},
    )
    start("rllib", spec)
    job = cluster.until_phase(namespace, "rllib", "Succeeded")
    status = job["status"]
    assert status["training"]["round"] == ROUNDS
    history = [entry["actors"] for entry in status["training"]["history"]]
    assert len(set(history)) > 2, "the score never moved: this run shows nothing"
    assert status["cost"]["total"] > 0
    assert status["checkpoint"]["round"] == ROUNDS
