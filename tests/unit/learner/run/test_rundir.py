"""The run folder: CSV rows, going on with them, TensorBoard events, the lock, and the check that the job is
the same.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from learner_support import job
from nitro_api.costs.ledger import Ledger
from nitro_api.costs.prices import RoundCost
from nitro_learner.backends.local import LocalBackend
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.run.folders import held_beside
from nitro_learner.run.metrics_file import columns_of, read_metrics, read_rows
from nitro_learner.run.recorders import CsvMetrics, TensorBoard
from nitro_learner.run.rundir import RunDir, RunDirError, naming
from nitro_learner.run.runs import open_run
from nitro_learner.run.same_job import check_same_job
from nitro_learner.run.session import train
from nitro_learner.run.tracking.follower import Rounds
from nitro_learner.run.views.plot import draw
from nitro_learner.training.round_report import COLUMNS
from report_support import report


def test_csv_has_the_documented_columns_and_exact_numbers(tmp_path: Path) -> None:
    csv = CsvMetrics(tmp_path / "metrics.csv")
    csv.on_run_started(round=0, rounds=5, history=[])
    csv.on_round_done(report(1, boosting_score=None, kl=0.1 + 0.2))
    rows = read_metrics(csv.path)
    assert tuple(rows[0]) == COLUMNS
    assert COLUMNS[:4] == ("round", "env_steps", "wall_seconds", "reward_mean")
    assert rows[0]["kl"] == 0.1 + 0.2
    assert rows[0]["boosting_score"] is None
    assert rows[0]["env_steps"] == 4096


def test_info_metrics_are_columns_behind_the_others_and_may_come_with_a_resume(tmp_path: Path) -> None:
    csv = CsvMetrics(tmp_path / "metrics.csv")
    csv.on_run_started(round=0, rounds=5, history=[])
    csv.on_round_done(report(1))
    again = CsvMetrics(csv.path, ["info_success", "info_dist/x"])
    again.on_run_started(round=1, rounds=5, history=[])
    told = report(2, extra={"info_success": 0.25, "info_dist/x": None})
    again.on_round_done(told)
    rows = read_metrics(csv.path)
    assert tuple(rows[0]) == (*COLUMNS, "info_success", "info_dist/x")
    assert [row["info_success"] for row in rows] == [None, 0.25]
    assert [row["info_dist/x"] for row in rows] == [None, None]
    board = TensorBoard(tmp_path / "events")
    board.on_run_started(round=1, rounds=5, history=[])
    board.on_round_done(told)
    board.close()
    assert "info/success" in _events(tmp_path / "events").Tags()["scalars"]
    (measured, last) = Rounds(RunDir(tmp_path)).up_to(2, 1_000.0)
    assert "info/success" not in measured.values
    assert last.values["info/success"] == 0.25


def test_a_resume_drops_rows_after_the_checkpoint_and_a_truncated_line(tmp_path: Path) -> None:
    csv = CsvMetrics(tmp_path / "metrics.csv")
    csv.on_run_started(round=0, rounds=5, history=[])
    for number in (1, 2, 3):
        csv.on_round_done(report(number))
    with csv.path.open("a") as file:
        file.write("4,16384,5.0,80")
    again = CsvMetrics(csv.path)
    again.on_run_started(round=2, rounds=5, history=[])
    again.on_round_done(report(3, reward_mean=-1.0))
    assert [row["round"] for row in read_rows(csv.path)] == ["1", "2", "3"]
    assert read_metrics(csv.path)[2]["reward_mean"] == -1.0
    assert list(tmp_path.iterdir()) == [csv.path]


def test_a_line_cut_within_its_last_number_is_not_read(tmp_path: Path) -> None:
    csv = CsvMetrics(tmp_path / "metrics.csv")
    csv.on_run_started(round=0, rounds=5, history=[])
    csv.on_round_done(report(1))
    csv.on_round_done(report(2))
    csv.path.write_text(csv.path.read_text()[:-3])
    assert [row["round"] for row in read_rows(csv.path)] == ["1"]


def test_rows_become_columns_with_nan_for_missing_values() -> None:
    columns = columns_of([{"round": 1, "kl": None}, {"round": 2, "kl": 0.5, "later": 1.0}, {"round": 3}])
    assert {name: column.dtype for name, column in columns.items()} == {"round": float, "kl": float}
    np.testing.assert_array_equal(columns["round"], [1, 2, 3])
    np.testing.assert_array_equal(columns["kl"], [np.nan, 0.5, np.nan])
    assert columns_of([]) == {}


def test_a_run_without_rounds_is_refused_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="no rounds in it"):
        read_metrics(tmp_path / "metrics.csv")


def test_a_file_of_an_older_version_is_read_and_one_without_its_costs_is_not(tmp_path: Path) -> None:
    csv = CsvMetrics(tmp_path / "metrics.csv")
    csv.on_run_started(round=0, rounds=5, history=[])
    csv.on_round_done(report(1))
    whole = csv.path.read_text()
    csv.path.write_text(whole.replace("gradient_snr", "of_before"))
    assert read_metrics(csv.path)[0]["gradient_snr"] is None
    csv.path.write_text(whole.replace("cost_total", "of_before"))
    with pytest.raises(RunDirError, match=r"metrics\.csv is damaged: it lacks cost_total"):
        read_metrics(csv.path)


def _sitting(folder: Path, first: int, last: int, reward: float) -> None:
    """Write the TensorBoard events of a sitting that does these rounds."""
    board = TensorBoard(folder)
    board.on_run_started(round=first - 1, rounds=9, history=[report(k).row() for k in range(1, first)])
    for number in range(first, last + 1):
        board.on_round_done(report(number, reward_mean=reward))
    board.close()


def _events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_tensorboard_scalars_are_over_environment_steps_and_a_resume_replaces_repeated_rounds(
    tmp_path: Path,
) -> None:
    _sitting(tmp_path, 1, 4, reward=1.0)
    _sitting(tmp_path, 3, 5, reward=2.0)
    events = _events(tmp_path)
    points = [(point.step, point.value) for point in events.Scalars("reward/mean")]
    assert points == [(4096, 1.0), (8192, 1.0), (12288, 2.0), (16384, 2.0), (20480, 2.0)]
    assert [point.value for point in events.Scalars("run/round")] == [1, 2, 3, 4, 5]
    tags = events.Tags()["scalars"]
    assert {"scaling/boosting_score", "seconds/update", "cost/total"} <= set(tags)
    assert "run/env_steps" not in tags, "it would be the x axis again"


def test_tensorboard_shows_one_curve_of_a_run_that_starts_again_without_a_checkpoint(tmp_path: Path) -> None:
    _sitting(tmp_path, 1, 3, reward=1.0)
    _sitting(tmp_path, 1, 2, reward=2.0)
    points = [(point.step, point.value) for point in _events(tmp_path).Scalars("reward/mean")]
    assert points == [(4096, 2.0), (8192, 2.0)]


def test_fresh_folders_never_clash(tmp_path: Path) -> None:
    paths = {RunDir.fresh(tmp_path, "hopper").path for _ in range(5)}
    assert len(paths) == 5


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_learner_cannot_open_the_run_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunDirError, match="another nitro process"), RunDir(tmp_path).locked():
            pass
        other.communicate()  # closes its input, which ends it
    with RunDir(tmp_path).locked():
        pass


def test_another_job_is_refused_by_its_fields(tmp_path: Path) -> None:
    old = {"spec": {"seed": 0, "stop": {"rounds": 5}, "scaling": {"scaler": "nitro", "decay": 0.96}}}
    new = {"spec": {"seed": 1, "stop": {"rounds": 9}, "scaling": {"scaler": "fixed", "decay": 0.96}}}
    with pytest.raises(RunDirError) as error:
        check_same_job(old, new, tmp_path)
    *lines, remedy = str(error.value).splitlines()[1:]
    assert lines == [
        "  spec.scaling.scaler: 'nitro' in the folder, 'fixed' now",
        "  spec.seed: 0 in the folder, 1 now",
    ]
    assert "only these may change: spec.stop, spec.backend, " in remedy
    check_same_job(old, {"spec": {**old["spec"], "stop": {"rounds": 9}}}, tmp_path)
    held = {"scaler": "nitro", "decay": 0.96, "hold": 60}
    check_same_job(old, {"spec": {**old["spec"], "scaling": held}}, tmp_path)


def _trained(path: Path, rounds: int, **spec: Any) -> RunDir:
    """What a run leaves that has a checkpoint of its last round; round 1 was done twice."""
    folder = open_run(RunDir(path), job(**spec), resume=False).folder
    csv = CsvMetrics(folder.metrics)
    csv.on_run_started(round=0, rounds=rounds, history=[])
    with Ledger(folder.ledger) as ledger:
        for number in (1, *range(1, rounds + 1)):
            ledger.append(number, RoundCost(0.5, 0.5))
        for number in range(1, rounds + 1):
            csv.on_round_done(report(number))
    CheckpointStore(folder.checkpoints, keep_last=1).save(rounds, {"run": "r"})
    return folder


def test_a_job_that_failed_before_it_began_holds_no_folder(tmp_path: Path) -> None:
    open_run(RunDir(tmp_path), job(), resume=False).folder.ledger.touch()
    (tmp_path / "metrics.csv").write_text(",".join(COLUMNS) + "\n")
    assert open_run(RunDir(tmp_path), job(seed=2), resume=True).folder.read_job()["spec"]["seed"] == 2
    assert open_run(RunDir(tmp_path), job(seed=3), resume=False).folder.read_job()["spec"]["seed"] == 3


@pytest.mark.parametrize("kept", ["metrics.csv", "ledger.jsonl", "checkpoints"])
def test_a_round_a_cost_or_a_checkpoint_is_protected(tmp_path: Path, kept: str) -> None:
    folder = _trained(tmp_path, 1)
    for path in (folder.metrics, folder.ledger, folder.checkpoints / "round-000001.safetensors"):
        if kept not in str(path):
            path.unlink()
    with pytest.raises(RunDirError, match="already holds a run"):
        open_run(folder, job(), resume=False)
    with pytest.raises(RunDirError, match="these fields differ"):
        open_run(folder, job(seed=2), resume=True)


@pytest.mark.parametrize(
    ("name", "lines", "missing"),
    [
        ("metrics.csv", [0, 1, 4, 6], "2 to 3, 5"),
        ("metrics.csv", [0], "1 to 6"),
        ("metrics.csv", None, "1 to 6"),
        ("ledger.jsonl", [0, 1, 2, 3, 4, 5], "6"),
        ("ledger.jsonl", None, "1 to 6"),
    ],
)
def test_a_run_that_has_lost_rounds_does_not_go_on(
    tmp_path: Path, name: str, lines: list[int] | None, missing: str
) -> None:
    folder = _trained(tmp_path, 6)
    lost = tmp_path / name
    whole = lost.read_text().splitlines(keepends=True)
    lost.unlink()
    if lines is not None:
        lost.write_text("".join(whole[line] for line in lines))
    with pytest.raises(RunDirError) as error:
        open_run(folder, job(), resume=True)
    assert str(error.value) == (
        f"{lost} lacks rounds that the checkpoint of round 6 is built on: {missing}. "
        "Restore the file, or start a new run in another folder."
    )
    assert lost.exists() == (lines is not None)
    lost.write_text("".join(whole))
    assert len(open_run(folder, job(), resume=True).history) == 6


def test_a_finished_run_without_its_checkpoints_is_not_trained_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its curve would be lost, and its rounds be paid twice."""
    folder = _trained(tmp_path, 2)
    rows = folder.metrics.read_bytes()
    shutil.rmtree(folder.checkpoints)
    assert open_run(folder, job(), resume=True).checkpoint is None
    assert "the run starts over, and repeats 2 rounds" in caplog.text
    folder.write_summary({"finished": True, "rounds": 0})  # its budget was too small for a round
    assert open_run(folder, job(), resume=True).checkpoint is None
    folder.write_summary({"finished": True, "rounds": 2})
    with pytest.raises(
        RunDirError, match=r"checkpoints has no checkpoint, but the run has finished 2 rounds"
    ):
        open_run(folder, job(), resume=True)
    assert folder.metrics.read_bytes() == rows


@pytest.mark.parametrize("text", ["[1]", "null", '"x"', '{"rounds": "x"}', '{"rounds": true}', "{"])
def test_a_summary_that_is_none_is_told_as_damaged(tmp_path: Path, text: str) -> None:
    folder = RunDir(tmp_path)
    folder.summary.write_text(text)
    with pytest.raises(RunDirError, match=r"summary\.json is damaged"):
        folder.read_summary()


def test_a_file_is_no_folder_for_a_run(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.touch()
    with pytest.raises(RunDirError, match=r"job\.yaml is a file\. Name a folder"):
        RunDir(file).check_free()


def test_a_folder_of_an_experiment_is_no_folder_for_a_run(tmp_path: Path) -> None:
    """Both have the same mark."""
    with RunDir(tmp_path).locked():
        (tmp_path / "experiment.yaml").touch()
    with pytest.raises(RunDirError, match=r"holds an experiment \(experiment\.yaml\).* new or empty"):
        RunDir(tmp_path).check_free()


def test_work_on_a_file_is_locked_beside_it_and_leaves_nothing(tmp_path: Path) -> None:
    path, busy = tmp_path / "agents" / "agent", RunDirError("busy")
    for left in (False, True):
        with held_beside(path, busy):
            with pytest.raises(RunDirError, match="busy"), held_beside(path, busy):
                pass
            assert [one.name for one in path.parent.iterdir()] == [".agent.lock"], (
                "the refused one removed it"
            )
        assert list(path.parent.iterdir()) == []
        if not left:
            (path.parent / ".agent.lock").touch()  # of a process that was killed


def test_a_lock_that_its_holder_removes_at_this_moment_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def flock(file: IO[str], operation: int) -> None:
        if not taken:
            Path(file.name).unlink()
        taken.append(file.fileno())
        lock(file, operation)

    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with held_beside(tmp_path / "agent", RunDirError("busy")):
        assert len(taken) == 2
        with pytest.raises(RunDirError), held_beside(tmp_path / "agent", RunDirError("busy")):
            pass


def test_a_rate_that_falls_over_all_rounds_keeps_their_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    annealed = {"algorithm__hyperparameters__learningRateAnneal": True}
    folder = _trained(tmp_path, 2, stop__rounds=4, **annealed)
    longer = job(stop__rounds=8, **annealed)
    with pytest.raises(
        RunDirError,
        match=r"over 4 rounds.*another folder, or spec\.stop\.rounds=4 again.* --set spec\.stop\.rounds=8",
    ):
        open_run(folder, longer, resume=True)
    assert folder.read_job()["spec"]["stop"]["rounds"] == 4, "what was refused has changed the folder"
    longer.metadata.uid = "patched on a cluster"
    assert open_run(folder, longer, resume=True).checkpoint
    assert "It goes on all the same, at the rate that a run of 8 rounds has there." in caplog.text


def test_a_write_that_fails_names_its_file() -> None:
    with pytest.raises(OSError, match=r"No space left on device: 'job\.yaml'"), naming("job.yaml"):
        Path("/dev/full").write_text("x")


async def test_an_unreadable_ledger_is_reported_before_training_starts(tmp_path: Path) -> None:
    run = open_run(RunDir(tmp_path / "run"), job(), resume=True)
    run.folder.ledger.write_text("not JSON\n{}\n")
    with pytest.raises(RunDirError, match="line 1 is not a ledger entry"):
        await train(run, LocalBackend(run.job.spec, run.id), draw=draw)
