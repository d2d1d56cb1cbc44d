"""`nitro train` with SAC: killed, resumed, learned again from its recorded feed, and played."""

from pathlib import Path

from off_policy_support import check_killed_and_relearned
from train_support import nitro, write_job

ROUNDS = 6


def test_a_killed_run_is_learned_again_from_its_feed_to_the_bit_and_its_policy_plays(tmp_path: Path) -> None:
    settings = {"bufferSize": 700, "batchSize": 32, "warmUpSteps": 200}  # the run fills the buffer
    job = write_job(
        tmp_path,
        environment={"id": "Pendulum-v1", "rolloutLength": 64, "envsPerActor": 1},
        network={"hiddenSizes": [32, 32]},
        algorithm={"name": "sac", "hyperparameters": settings},
        scaling={"scaler": "nitro", "minActors": 2, "maxActors": 6, "initialActors": 5},
        stop={"rounds": ROUNDS},
    )
    run = tmp_path / "run"
    check_killed_and_relearned(job, run, ROUNDS)
    played = nitro("evaluate", run, "--episodes", "2")
    assert played.returncode == 0, played.stderr


def test_what_sac_cannot_learn_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for settings, sentence in (
        ({"environment": {"id": "CartPole-v1"}}, "needs a Box of actions"),
        ({"environment": {"id": "Pendulum-v1"}, "network": {"recurrent": {}}}, "spec.network.recurrent"),
    ):
        job = write_job(tmp_path, algorithm={"name": "sac"}, stop={"rounds": 1}, **settings)
        refused = nitro("train", job, "--run-dir", tmp_path / "run")
        assert refused.returncode == 2, refused.stderr
        assert sentence in refused.stderr
