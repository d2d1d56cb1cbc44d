"""Jobs whose learner is Ray RLlib's, through Knative: another image, and all else as for our learner."""

from __future__ import annotations

from collections.abc import Callable

from harness import Cluster, Object
from jobs import hopper

Start = Callable[[str, Object], Object]
ROUNDS = 5


def test_rllib_learns_from_actors_that_follow_the_score(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    image = cluster.images["learner"].replace("nitro-learner:", "nitro-learner-rllib:")
    spec = hopper(
        rounds=ROUNDS,
        actors=(3, 6, 12),
        algorithm={"name": "rllib/ppo", "rllib": {"num_epochs": 2, "minibatch_size": 256}},
        learner={"image": image},
    )
    start("rllib", spec)
    job = cluster.until_phase(namespace, "rllib", "Succeeded")
    cluster.until_no_pods(namespace, "rllib", "actor")
    status = job["status"]
    assert status["training"]["round"] == ROUNDS
    history = [entry["actors"] for entry in status["training"]["history"]]
    assert len(set(history)) > 2, "the score never moved: this run shows nothing"
    assert status["cost"]["total"] > 0
    assert status["checkpoint"]["round"] == ROUNDS


def test_an_image_without_rllib_says_what_is_missing(cluster: Cluster, namespace: str, start: Start) -> None:
    start("rllib", hopper(rounds=1, algorithm={"name": "rllib/ppo"}))
    job = cluster.until_phase(namespace, "rllib", "Failed")
    (failed,) = [one for one in job["status"]["conditions"] if one["type"] == "Failed"]
    assert "needs Ray's RLlib, which is not installed" in failed["message"]
    assert "--build-arg EXTRAS=rllib" in failed["message"]
