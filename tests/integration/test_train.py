"""`nitro train` as a user runs it: what it prints, what it leaves behind, and how it stops."""

import errno
import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_api import load_job, resolve
from nitro_learner.backends.local import LocalBackend
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.cli.exits import ABORTED, INTERRUPTED
from nitro_learner.run import session
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import open_run
from nitro_learner.run.views.plot import draw
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.round_report import COLUMNS
from train_support import LOADING, job, nitro, rows_of, start, wait_for_rows, write_job


def test_a_run_leaves_everything_that_the_readme_promises(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = nitro("train", write_job(tmp_path), "--run-dir", run)
    assert done.returncode == 0, done.stderr
    assert "done: all 6 rounds are done" in done.stdout
    assert "final return" in done.stdout
    rows = rows_of(run)
    assert [row["round"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert tuple(rows[0]) == COLUMNS
    for before, row in pairwise(rows):
        assert row["actors"] == before["next_actors"]
        assert int(row["env_steps"]) - int(before["env_steps"]) == 64 * int(row["actors"])
        assert float(row["cost_total"]) > float(before["cost_total"])
    assert [bool(row["evaluation_mean"]) for row in rows] == [False, False, True, False, True, False]
    assert rows[0]["actors"] == "3"
    job = yaml.safe_load((run / "job.yaml").read_text())
    assert job["spec"]["algorithm"]["hyperparameters"]["gamma"] == 0.995
    summary = json.loads((run / "summary.json").read_text())
    assert summary["finished"] is True
    assert summary["reason"] == "RoundsDone"
    assert summary["evaluation"]["episodes"] == 2
    assert (run / "result.png").read_bytes()[:4] == b"\x89PNG"
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == [
        "best.safetensors",
        *(f"round-00000{number}.safetensors" for number in (4, 5, 6)),
    ]
    assert list((run / "tensorboard").iterdir())
    paid = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert len(paid) == 7, "the last for the last evaluation"
    assert summary["cost"]["learner"] == pytest.approx(sum(entry["learner"] for entry in paid))
    assert summary["cost"]["actors"] == pytest.approx(sum(entry["actors"] for entry in paid))
    assert summary["cost"]["total"] > float(rows[-1]["cost_total"])
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["round"] for entry in log if entry["message"] == "round done"] == [1, 2, 3, 4, 5, 6]


def test_actors_follow_the_recorded_ratios_as_by_hand(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert nitro("train", write_job(tmp_path, stop={"rounds": 10}), "--run-dir", run).returncode == 0
    window: list[float] = []
    for row in rows_of(run):
        number = int(row["round"])
        window = [*window, float(row["convexity_ratio"])][-6:]
        low, high = min(window), max(window)
        norm = (high - window[-1]) / (high - low) if len(window) > 1 else 1.0
        if len(window) > 1 and high - low <= 1e-9 * max(1, abs(high)):
            norm = 0.5
        score = norm * 0.998**number
        assert abs(float(row["boosting_score"]) - score) < 1e-12
        assert int(row["next_actors"]) == min(6, max(2, int(6 * score)))


def test_json_lines_for_programs(tmp_path: Path) -> None:
    done = nitro("train", write_job(tmp_path, stop={"rounds": 2}), "--run-dir", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", "round", "round", "end"]
    assert events[1]["env_steps"] == 192
    assert events[-1]["finished"] is True


def test_stops_at_the_target_reward(tmp_path: Path) -> None:
    job = write_job(tmp_path, stop={"rounds": 50, "targetReward": 1.0})
    run = tmp_path / "run"
    done = nitro("train", job, "--run-dir", run)
    assert done.returncode == 0, done.stderr
    assert "reached the target reward 1" in done.stdout
    # Version 2 is the first that is evaluated, while round 3 runs.
    assert len(rows_of(run)) == 3


def test_stops_at_the_budget(tmp_path: Path) -> None:
    job = write_job(tmp_path, stop={"rounds": 500, "budgetDollars": 0.001})
    done = nitro("train", job, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "run")
    *before, last = (float(row["cost_total"]) for row in rows)
    assert last >= 0.001 > max(before, default=0.0)  # on a busy machine one round costs so much


def test_interrupt_stops_after_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("train", write_job(tmp_path, stop={"rounds": 5000}), "--run-dir", run)
    wait_for_rows(run, 3, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 75, (out, err)
    assert f"nitro train --resume {run}" in err
    rounds = len(rows_of(run))
    assert (run / "checkpoints" / f"round-{rounds:06d}.safetensors").exists()
    assert json.loads((run / "summary.json").read_text())["finished"] is False
    again = nitro("train", "--resume", run, "--set", f"spec.stop.rounds={rounds + 2}")
    assert again.returncode == 0, again.stderr
    assert [row["round"] for row in rows_of(run)] == [str(number) for number in range(1, rounds + 3)]


def test_a_run_with_cut_episodes_reports_them_at_its_end(tmp_path: Path) -> None:
    own = {"id": "own", "entryPoint": "actor_support:Forgetful", "rolloutLength": 16, "envsPerActor": 8}
    done = nitro(
        "train", write_job(tmp_path, environment=own, stop={"rounds": 2}), "--run-dir", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    assert "* training return of short episodes only" in done.stdout
    *_, last, note, picture, _ = done.stdout.splitlines()
    assert last.startswith("no training episode ended*, ")
    assert note.startswith("* Training returns are those of short episodes only: ")
    assert "because this environment's state cannot be saved" in note
    assert picture.startswith("picture: ")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert f"* {summary['rewardNote']}" == note


@pytest.fixture
def endless(tmp_path: Path) -> dict[str, Any]:
    """An environment without end, which is slow while the file `brake` is there."""
    brake = tmp_path / "brake"
    brake.touch()
    entry_point = "learner_environments:Endless"
    return {"id": "Endless-v0", "entryPoint": entry_point, "kwargs": {"brake": str(brake)}, "envsPerActor": 1}


@pytest.mark.parametrize("algorithm", ["ppo", "impact"])
def test_interrupted_rollouts_are_paid(tmp_path: Path, endless: dict[str, Any], algorithm: str) -> None:
    run = tmp_path / "run"
    job = write_job(
        tmp_path,
        environment={**endless, "rolloutLength": 2000},
        algorithm={"name": algorithm, "hyperparameters": {"epochs": 1}},
        evaluation={"everyRounds": 1000},
        scaling={"scaler": "fixed", "minActors": 2, "maxActors": 2},
    )
    process = start("train", job, "--run-dir", run)
    wait_for_rows(run, 1, process)
    process.send_signal(signal.SIGTERM)  # two seconds of sampling have begun
    out, err = process.communicate(timeout=280)
    assert process.returncode == 75, (out, err)
    assert "is replaced" not in err, "that actors are broken off is no trouble"
    entries = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    last = entries[-1]
    assert last["round"] == 0
    assert last["details"]["invocations"] >= 1
    assert last["details"]["estimatedInvocations"] == last["details"]["invocations"]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["cost"]["actors"] == pytest.approx(sum(entry["actors"] for entry in entries))


def test_a_signal_ends_the_evaluation_at_the_end_which_a_resume_does_again(
    tmp_path: Path, endless: dict[str, Any]
) -> None:
    run = tmp_path / "run"
    job = write_job(
        tmp_path,
        environment={**endless, "rolloutLength": 64},
        evaluation={"episodes": 2},
        actor={"timeoutSeconds": 250},
        stop={"rounds": 1},
    )
    process = start("train", job, "--run-dir", run)
    wait_for_rows(run, 1, process)
    process.send_signal(signal.SIGTERM)  # its 30,000 steps take half a minute
    out, err = process.communicate(timeout=280)
    assert process.returncode == 75, (out, err)
    assert "interrupted after round 1" in err
    assert "evaluation" not in json.loads((run / "summary.json").read_text())
    (tmp_path / "brake").unlink()
    again = nitro("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    assert json.loads((run / "summary.json").read_text())["evaluation"]["mean"] == 30_000
    assert "2 of 2 evaluation episodes were cut at 30,000 steps" in again.stderr
    played = nitro("evaluate", run, "--episodes", "1")
    assert played.returncode == 0, played.stderr
    assert "1 of 1 evaluation episodes were cut at 30,000 steps" in played.stderr


def test_an_update_that_hangs_ends_the_run_and_a_resume_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hung = nitro("train", write_job(tmp_path), "--run-dir", run, hang="3:2")
    assert hung.returncode == INTERRUPTED, hung.stderr
    assert "the update hangs: its thread has used no CPU for 2 s" in hung.stderr
    assert f"nitro train --resume {run}" in hung.stderr
    again = nitro("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    assert [row["round"] for row in rows_of(run)] == ["1", "2", "3", "4", "5", "6"]


def test_the_second_interrupt_does_not_wait_for_an_update_that_hangs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("train", write_job(tmp_path), "--run-dir", run, hang="3:600")
    assert process.stderr is not None
    for said in ("standing still", "once more aborts"):
        assert any(said in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
    assert process.wait(280) == ABORTED


def test_metrics_are_served_while_it_trains(tmp_path: Path) -> None:
    import urllib.request

    run = tmp_path / "run"
    process = start(
        "train", write_job(tmp_path, stop={"rounds": 5000}), "--run-dir", run, "--metrics-port", "0"
    )
    try:
        wait_for_rows(run, 2, process)
        assert process.stderr is not None
        assert process.stderr.readline() == LOADING
        line = process.stderr.readline()
        text = urllib.request.urlopen(line.split()[1], timeout=120).read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=280)
    labels = 'job_name="small",namespace="local"'
    for name in (
        "nitro_episode_reward_mean",
        "nitro_boosting_score",
        "nitro_convexity_ratio",
        "nitro_env_steps_total",
    ):
        assert f"{name}{{{labels}}} " in text, name
    assert f'nitro_job_cost_dollars_total{{component="actors",{labels}}}' in text
    assert process.returncode == 75


NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    given = (write_job(tmp_path, stop={"rounds": 1}), "--set", "spec.learner.device=cuda")
    refused = nitro("train", *given, "--run-dir", run, variables=NO_GPU)
    assert refused.returncode == 2, refused.stderr
    assert 'spec.learner.device: "cuda"; torch 2.' in refused.stderr
    assert "sees 0 GPUs (CUDA_VISIBLE_DEVICES is '')" in refused.stderr
    assert "train on the CPU by --set spec.learner.device=cpu" in refused.stderr
    assert not run.exists()


def test_a_run_of_a_gpu_goes_on_on_a_cpu_when_it_is_asked_to(tmp_path: Path) -> None:
    """Without a GPU here its checkpoint is given another device, as a GPU would have written it."""
    run = tmp_path / "run"
    first = nitro("train", write_job(tmp_path, stop={"rounds": 1}), "--run-dir", run, variables=NO_GPU)
    assert first.returncode == 0, first.stderr
    saved = CheckpointStore(run / "checkpoints", keep_last=3)
    checkpoint = saved.latest()
    assert checkpoint
    assert checkpoint.state["device"] == "cpu"
    saved.save(1, {**checkpoint.state, "device": "NVIDIA H200"})
    more = ("--resume", run, "--set", "spec.stop.rounds=2", "--set")
    refused = nitro("train", *more, "spec.learner.device=cuda", variables=NO_GPU)
    assert refused.returncode == 2, refused.stderr
    assert "--set spec.learner.device=cpu" in refused.stderr
    gone_on = nitro("train", *more, "spec.learner.device=cpu", variables=NO_GPU)
    assert gone_on.returncode == 0, gone_on.stderr
    assert "The run was computed on NVIDIA H200 and continues on cpu" in gone_on.stderr
    assert len(rows_of(run)) == 2
    assert json.loads((run / "summary.json").read_text())["versions"]["device"] == "cpu"


def test_a_job_that_cannot_begin_leaves_no_folder_to_the_corrected_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = write_job(tmp_path, stop={"rounds": 1})
    wrong = nitro("train", job, "--set", "spec.environment.id=Chess-v0", "--run-dir", run)
    assert wrong.returncode == 2, wrong.stderr
    assert "Give a registered id" in wrong.stderr
    assert "registration.py" not in wrong.stderr, "a line of gymnasium's is no line of the user's"
    assert not run.exists()
    right = nitro("train", job, "--run-dir", run)
    assert right.returncode == 0, right.stderr
    assert len(rows_of(run)) == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_run_goes_on_where_nobody_reads_its_output(tmp_path: Path, options: list[str]) -> None:
    run = tmp_path / "run"
    job = write_job(tmp_path, stop={"rounds": 3})
    process = start("train", job, "--run-dir", run, "--no-check", *options)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    assert process.wait() == 0
    loading = "" if options else LOADING
    assert told == f"{loading}WARNING: The output cannot be written (Broken pipe). This goes on without it.\n"
    assert len(rows_of(run)) == 3
    assert (run / "result.png").is_file()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (ValueError("Key backend: no such one"), "ValueError: Key backend: no such one"),
    ],
)
async def test_a_picture_that_cannot_be_drawn_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    def full(*_: object) -> None:
        raise error

    run = open_run(RunDir(tmp_path / "run"), resolve(load_job(job(stop={"rounds": 1}))), resume=False)
    outcome, _ = await session.train(run, LocalBackend(run.job.spec, run.id), draw=full)
    assert outcome.finished
    assert f"The picture {run.folder.plot} could not be drawn: {told}" in caplog.text


async def test_a_summary_that_failed_on_a_full_disk_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(RunDir(tmp_path / "run"), resolve(load_job(job(stop={"rounds": 1}))), resume=False)
    open_file = Path.open

    def full(path: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "wb" and "summary" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return open_file(path, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(TrainingFailed, match=r"summary\.json: No space left on device\. Make room") as failed:
        await session.train(run, LocalBackend(run.job.spec, run.id), draw=draw)
    assert failed.value.resumable
