"""kill -9 at any moment, then --resume: the same fragments and weights as the run that nobody disturbed, to
the bit.
"""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml

import nitro_learner as library
from nitro_learner.checkpoints.store import CheckpointStore
from tracking_support import mlflow_client, mlflow_history, synced, until
from train_support import exact_rows, learned, nitro, recorded, rows_of, start, wait_for_rows, write_job
from wandb_cloud import UploadedRun, cloud


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = nitro(
        "train", write_job(directory), "--run-dir", directory / "run", record=directory / "record.jsonl"
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_killed_and_resumed_again_and_again_equals_undisturbed(tmp_path: Path, undisturbed: Path) -> None:
    run, record = tmp_path / "run", tmp_path / "record.jsonl"
    begin: tuple[str | Path, ...] = (write_job(tmp_path), "--run-dir", run)
    for moment in ("1:update", "2:checkpoint", "3:sample", "3:update"):
        killed = nitro("train", *begin, record=record, kill=moment)
        assert killed.returncode == -9, (moment, killed.stderr)
        begin = ("--resume", run)
    again = nitro("train", *begin, record=record)
    assert again.returncode == 0, again.stderr
    assert recorded(record) == recorded(undisturbed / "record.jsonl")
    assert learned(run, 6) == learned(undisturbed / "run", 6)
    assert exact_rows(run) == exact_rows(undisturbed / "run")


def test_a_renamed_and_a_copied_folder_go_on_to_the_same_result(tmp_path: Path, undisturbed: Path) -> None:
    killed = nitro("train", write_job(tmp_path), "--run-dir", tmp_path / "run", kill="4:update")
    assert killed.returncode == -9, killed.stderr
    shutil.copytree(tmp_path / "run", tmp_path / "copied")
    (tmp_path / "run").rename(tmp_path / "renamed")
    both = [start("train", "--resume", tmp_path / name) for name in ("renamed", "copied")]
    for process in both:  # at the same time
        _, err = process.communicate(timeout=280)
        assert process.returncode == 0, err
    for name in ("renamed", "copied"):
        assert learned(tmp_path / name, 6) == learned(undisturbed / "run", 6)
        assert exact_rows(tmp_path / name) == exact_rows(undisturbed / "run")


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, undisturbed: Path) -> None:
    run, record = tmp_path / "run", tmp_path / "record.jsonl"
    killed = nitro("train", write_job(tmp_path), "--run-dir", run, record=record, kill="5:sample")
    assert killed.returncode == -9, killed.stderr
    newest = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    again = nitro("train", "--resume", run, record=record)
    assert again.returncode == 0, again.stderr
    assert newest.name in again.stderr
    assert recorded(record) == recorded(undisturbed / "record.jsonl")
    assert exact_rows(run) == exact_rows(undisturbed / "run")


def test_repeated_rounds_are_paid_twice(tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = write_job(tmp_path, learner={"checkpoint": {"everyRounds": 4}})
    assert nitro("train", job, "--run-dir", run, kill="4:sample").returncode == -9
    first = float(rows_of(run)[-1]["cost_total"])
    again = nitro("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    rows = rows_of(run)
    assert [row["round"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert float(rows[0]["cost_total"]) > first
    entries = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert [entry["round"] for entry in entries] == [1, 2, 3, 1, 2, 3, 4, 5, 6, 0]  # 0: the last evaluation
    cost = json.loads((run / "summary.json").read_text())["cost"]
    assert cost["repeated"] == pytest.approx(sum(one["learner"] + one["actors"] for one in entries[3:6]))
    assert cost["total"] == pytest.approx(sum(one["learner"] + one["actors"] for one in entries))


def test_another_job_is_not_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert nitro("train", write_job(tmp_path, stop={"rounds": 1}), "--run-dir", run).returncode == 0
    other = nitro("train", "--resume", run, "--set", "spec.seed=8", "--set", "spec.scaling.decay=0.9")
    assert other.returncode == 2
    assert "spec.scaling.decay: 0.998 in the folder, 0.9 now" in other.stderr
    assert "spec.seed: 7 in the folder, 8 now" in other.stderr
    again = nitro("train", write_job(tmp_path), "--run-dir", run)
    assert again.returncode == 2
    assert f"--resume {run}" in again.stderr


def test_a_resumed_run_keeps_its_rollouts_when_defaults_change(tmp_path: Path) -> None:
    """Its job file leaves them out, and an earlier version had filled in others."""
    source = write_job(
        tmp_path,
        environment={"id": "own", "entryPoint": "actor_support:Forgetful"},
        stop={"rounds": 1},
        evaluation={"episodes": 1, "everyRounds": 9},
    )
    run = tmp_path / "run"
    earlier = ["--set", "spec.environment.rolloutLength=48", "--set", "spec.environment.envsPerActor=6"]
    assert nitro("train", source, "--run-dir", run, *earlier).returncode == 0
    go_on = ["--resume", run, "--set", "spec.stop.rounds=2"]
    for given in ([], [source]):
        done = nitro("train", *given, *go_on)
        assert done.returncode == 0, done.stderr
        resolved = yaml.safe_load((run / "job.yaml").read_text())["spec"]["environment"]
        assert (resolved["rolloutLength"], resolved["envsPerActor"]) == (48, 6)
    other = nitro("train", source, *go_on, "--set", "spec.environment.envsPerActor=4")
    assert other.returncode == 2
    assert "spec.environment.envsPerActor: 6 in the folder, 4 now" in other.stderr


def test_a_killed_run_goes_on_in_the_same_runs_of_its_trackers(tmp_path: Path, undisturbed: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    tracking = {"mlflow": {"trackingUri": f"file://{store}"}, "wandb": {"mode": "offline"}}
    learner = {"checkpoint": {"everyRounds": 2}, "env": [{"name": "PASSWORD", "value": "secret"}]}
    # With a rate that falls over all of these rounds, the run could not end earlier.
    algorithm = {"hyperparameters": {"epochs": 2, "minibatchSize": 64, "learningRateAnneal": False}}
    stop = {"rounds": 10_000}
    job = write_job(tmp_path, stop=stop, algorithm=algorithm, tracking=tracking, learner=learner)
    process = start("train", job, "--run-dir", run)
    wait_for_rows(run, 5, process)
    process.send_signal(signal.SIGSTOP)  # the trackers' libraries load for longer than rounds last
    recorded_rounds = "*/*/metrics/run/round"
    until(
        lambda: (
            any(path.read_text().count("\n") > 1 for path in store.glob(recorded_rounds))
            and any(run.glob("wandb/offline-run-*"))
        ),
        "both trackers have begun",
    )
    process.kill()
    process.communicate()
    last = CheckpointStore(run / "checkpoints", keep_last=3).rounds()[-1] + 3
    again = nitro("train", "--resume", run, "--set", f"spec.stop.rounds={last}")
    assert again.returncode == 0, again.stderr
    assert "WARNING" not in again.stderr
    assert exact_rows(run)[:6] == exact_rows(undisturbed / "run"), "the same to the bit, tracked or not"

    rows = rows_of(run)
    assert [int(row["round"]) for row in rows] == list(range(1, last + 1))
    client = mlflow_client(store)
    experiment = client.get_experiment_by_name("nitro")
    (tracked,) = client.search_runs([experiment.experiment_id])
    (uploaded,) = _uploaded(run)
    assert [row["_step"] for row in uploaded.history] == [int(row["env_steps"]) for row in rows]
    for metric, column in (("run/round", "round"), ("reward/mean", "reward_mean"), ("update/kl", "kl")):
        measured = [(int(row["env_steps"]), float(row[column])) for row in rows if row[column]]
        assert mlflow_history(client, tracked.info.run_id, metric) == measured
        assert [(row["_step"], row[metric]) for row in uploaded.history if metric in row] == measured
    assert tracked.info.status == "FINISHED"
    assert uploaded.exit_code == 0
    assert tracked.data.params["seed"] == "7"
    assert uploaded.config["job"]["value"]["spec"]["seed"] == 7
    assert "secret" not in str(tracked.data.params) + str(uploaded.config)
    assert tracked.data.tags["nitro.environment"] == "Hopper-v5"
    assert "environment Hopper-v5" in uploaded.tags
    summary = json.loads((run / "summary.json").read_text())
    assert tracked.data.metrics["final/return_mean"] == summary["evaluation"]["mean"]
    assert uploaded.summary["final/return_mean"] == summary["evaluation"]["mean"]
    assert uploaded.artifacts == ["small-policy"]
    policy = client.download_artifacts(tracked.info.run_id, "policy/policy.safetensors", str(tmp_path))
    observation = np.linspace(-1, 1, 11, dtype=np.float32)
    np.testing.assert_array_equal(library.load(policy).act(observation), library.load(run).act(observation))
    written = client.download_artifacts(tracked.info.run_id, "policy/job.yaml", str(tmp_path))
    kept = yaml.safe_load(Path(written).read_text())
    assert kept["spec"]["learner"]["env"] == [{"name": "PASSWORD"}]


def _uploaded(run: Path) -> list[UploadedRun]:
    """What `wandb sync` uploads from a run folder."""
    with cloud() as servers:
        return list(synced(run, servers).values())
