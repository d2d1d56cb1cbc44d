"""Folders that a user names: nothing of anybody else's is overwritten, what could not begin leaves nothing,
and a run that has ended stays as it is.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from experiment_support import pretend, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import load
from nitro_experiments.reading.folder import ExperimentDir, machine
from nitro_learner.cli import main
from nitro_learner.cli.common import writing
from nitro_learner.cli.exits import CommandError
from report_support import run_folder
from train_support import LOADING, nitro, write_job


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two rounds, in a folder that existed and was empty."""
    directory = tmp_path_factory.mktemp("finished")
    run = directory / "run"
    run.mkdir()
    done = nitro("train", write_job(directory, stop={"rounds": 2}), "--run-dir", run)
    assert done.returncode == 0, done.stderr
    return run


def test_train_refuses_to_start_from_another_job_and_names_the_way_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_job(tmp_path, resumeFrom={"job": "other"})
    before = _contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "job.yaml", "--run-dir", "run"]) == 2
    told = capsys.readouterr().err
    assert "spec.resumeFrom starts a run on a cluster only" in told
    assert "by `nitro train JOB.yaml --from RUN_DIR`" in told
    assert "nitro train --resume RUN_DIR" in told
    assert _contents(tmp_path) == before, "no folder is left"


@pytest.mark.parametrize("option", ["--run-dir", "--resume"])
def test_train_changes_nothing_in_a_folder_that_holds_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    write_job(tmp_path)
    (tmp_path / "metrics.csv").write_text("round,mine\n1,2\n")
    before = _contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", *(["job.yaml"] if option == "--run-dir" else []), option, "."]) == 2
    told = capsys.readouterr().err
    assert "Nothing was changed." in told
    assert ("(job.yaml, metrics.csv)" if option == "--run-dir" else "nitro train job.yaml") in told
    assert _contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "job.yaml", "--run-dir", ""], "--run-dir"),
        (["train", "--resume", ""], "--resume"),
        (["experiment", "run", "two.yaml", "--dir", ""], "--dir"),
        (["evaluate", ""], "run"),
        (["report", ""], "run"),
        (["plot", "run", "--out", ""], "--out"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert f"argument {named}: the path is empty; is a shell variable unset?" in capsys.readouterr().err


def test_an_experiment_does_not_replace_a_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_spec(tmp_path).rename(tmp_path / "experiment.yaml")
    before = _contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", "run", "experiment.yaml", "--dir", "."]) == 2
    assert "holds something that is no experiment of nitro (experiment.yaml)" in capsys.readouterr().err
    (tmp_path / "report.md").write_text("mine")
    assert main(["experiment", "report", "."]) == 2
    (tmp_path / "report.md").unlink()
    assert _contents(tmp_path) == before


def test_a_copy_of_an_experiment_without_hidden_files_is_known_by_its_files(tmp_path: Path) -> None:
    experiment = load(write_spec(tmp_path))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(experiment)
    folder.add_machine(machine())
    for run in plan(experiment):
        pretend(folder, run, actors=[4, 4], returns=[0, 1])
    assert not (folder.path / ".lock").exists()
    assert main(["experiment", "report", str(folder.path)]) == 0


def test_a_default_output_replaces_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(run_folder(tmp_path / name, 3)) for name in ("a", "b")]
    monkeypatch.chdir(tmp_path)
    Path("compared.png").write_text("mine")
    assert main(["plot", *runs]) == 2
    assert (
        "compared.png exists already and is not replaced; name the file by --out" in capsys.readouterr().err
    )
    assert Path("compared.png").read_text() == "mine"
    assert main(["plot", *runs, "--out", "compared.png"]) == 0
    assert Path("compared.png").read_bytes()[:4] == b"\x89PNG"


def test_the_table_beside_a_landscape_replaces_no_other_table(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    refused = nitro("landscape", finished, "--points", "3", "--out", tmp_path / "mine.png")
    assert refused.returncode == 2, refused.stderr
    assert f"would replace {tmp_path / 'mine.csv'}" in refused.stderr
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


def test_a_folder_that_cannot_be_written_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spec = write_spec(tmp_path)
    for option, folder, arguments in (
        ("--run-dir", Path("/proc/nitro/run"), ("train", write_job(tmp_path))),
        ("--run-dir", tmp_path / "file" / "run", ("train", write_job(tmp_path))),
        ("--dir", tmp_path / "file" / "results", ("experiment", "run", spec)),
    ):
        refused = nitro(*arguments, option, folder)
        assert refused.returncode == 1, refused.stderr
        told = refused.stderr.removeprefix(LOADING)
        assert told.startswith(f"nitro: {option} {folder}: it cannot be written (")
        assert refused.stderr.endswith("Name a folder that you may write to.\n")


def test_only_errors_of_the_written_path_are_given_its_option(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), writing("--out", tmp_path / "picture.png", "Remedy."):
        raise PermissionError(13, "Permission denied", str(tmp_path / "run" / "metrics.csv"))
    with (
        pytest.raises(
            CommandError, match=r"--out .*picture\.png: it cannot be written \(Permission denied\)"
        ),
        writing("--out", tmp_path / "picture.png", "Remedy."),
    ):
        raise PermissionError(13, "Permission denied", str(tmp_path / "picture.png"))


@pytest.mark.parametrize("existed", [False, True])
def test_a_refused_observation_space_leaves_no_run(tmp_path: Path, *, existed: bool) -> None:
    run = tmp_path / "runs" / "new"
    if existed:
        run.mkdir(parents=True)
    environment = {"id": "x", "entryPoint": "actor_support:SequenceInDict", "rolloutLength": 64}
    refused = nitro("train", write_job(tmp_path, environment=environment), "--run-dir", run)
    assert refused.returncode == 1, refused.stderr
    assert "TransformObservation" in refused.stderr
    assert run.exists() == existed
    assert not _contents(tmp_path / "runs")


def test_a_finished_run_is_not_evaluated_or_charged_again(finished: Path) -> None:
    before = _contents(finished)
    again = nitro("train", "--resume", finished)
    assert again.returncode == 0, again.stderr
    told, _, extend = again.stdout.partition("\n")
    assert told == (
        f"{finished} is finished: all 2 rounds are done. Nothing was trained, evaluated or charged."
    )
    assert extend == f"To extend it: nitro train --resume {finished} --set spec.stop.rounds=4\n"
    words = ["--set", "spec.stop.rounds=1", "--set", "spec.stop.duration=1h"]
    shorter = nitro("train", "--resume", finished, "--json", *words)
    assert (shorter.returncode, shorter.stdout) == (0, "")
    assert "all 1 rounds are done" in shorter.stderr
    suggested = shlex.split(shorter.stderr.splitlines()[1])
    assert suggested[-5:] == [str(finished), "--set", "spec.stop.duration=1h", "--set", "spec.stop.rounds=4"]
    assert _contents(finished) == before


def test_a_finished_run_is_extended_by_the_command_that_it_names(finished: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    (run / ".lock").unlink()  # copied without hidden files
    command = nitro("train", "--resume", run).stdout.partition("To extend it: ")[2]
    program, *words = shlex.split(command)
    assert program == "nitro"
    longer = nitro(*words)
    assert longer.returncode == 0, longer.stderr
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["rounds"], summary["message"]) == (4, "all 4 rounds are done")
    assert yaml.safe_load((run / "job.yaml").read_text())["spec"]["stop"]["rounds"] == 4


def test_a_changed_job_is_refused_with_the_ways_to_train_it(finished: Path) -> None:
    other = nitro("train", "--resume", finished, "--set", "spec.seed=8")
    assert other.returncode == 2
    assert "only these may change: spec.stop, spec.backend, " in other.stderr
    file, change = f"nitro train {finished}/job.yaml", "--set spec.seed=8"
    assert other.stderr.endswith(
        f"To train the changed job in a new folder: {file} {change}\n"
        f"To train it there from what this run has learned: {file} --from {finished} {change}\n"
    )


def test_a_missing_kubeconfig_is_reported_in_full_sentences(tmp_path: Path) -> None:
    nowhere = {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "nitro_learner", "top"]
    done = subprocess.run(command, env={**os.environ, **nowhere}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no cluster to talk to: " in done.stderr
    assert ".." not in done.stderr
