"""`nitro train` with DQN: killed, resumed, learned again from its recorded feed, exported and played."""

from pathlib import Path

import onnxruntime

from off_policy_support import check_killed_and_relearned
from train_support import nitro, write_job

ROUNDS = 6


def test_a_killed_run_is_learned_again_from_its_feed_to_the_bit_and_its_policy_plays(tmp_path: Path) -> None:
    settings = {"bufferSize": 1500, "batchSize": 32, "replayRatio": 4}  # the run fills the buffer
    job = write_job(
        tmp_path,
        environment={"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 2},
        algorithm={"name": "dqn", "hyperparameters": settings},
        scaling={"scaler": "nitro", "minActors": 2, "maxActors": 6, "initialActors": 5},
        stop={"rounds": ROUNDS},
    )
    run = tmp_path / "run"
    check_killed_and_relearned(job, run, ROUNDS)

    played = nitro("evaluate", run, "--episodes", "2")
    assert played.returncode == 0, played.stderr
    exported = nitro("export", run, "--format", "onnx", "--out", tmp_path / "files")
    assert exported.returncode == 0, exported.stderr
    (file,) = (tmp_path / "files").glob("*.onnx")
    assert onnxruntime.InferenceSession(file).get_inputs()[0].shape[1:] == [4]


def test_what_dqn_cannot_learn_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for settings, sentence in (
        ({"environment": {"id": "Hopper-v5"}}, "needs Discrete actions"),
        ({"environment": {"id": "CartPole-v1"}, "network": {"recurrent": {}}}, "spec.network.recurrent"),
    ):
        job = write_job(tmp_path, algorithm={"name": "dqn"}, stop={"rounds": 1}, **settings)
        refused = nitro("train", job, "--run-dir", tmp_path / "run")
        assert refused.returncode == 2, refused.stderr
        assert sentence in refused.stderr
