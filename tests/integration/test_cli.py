"""The command line: help, bad input, exit codes, and the commands that read a run folder."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nitro_learner.cli import main
from nitro_learner.cli.commands import COMMANDS, EXPERIMENTS
from nitro_learner.cli.program import installed
from report_support import run_folder
from train_support import LOADING, nitro, write_job


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cli")
    done = nitro("train", write_job(directory), "--run-dir", directory / "run")
    assert done.returncode == 0, done.stderr
    return directory / "run"


@pytest.mark.parametrize(
    "command",
    [
        "train",
        "validate",
        "plot",
        "evaluate",
        "explain",
        "experiment",
        "experiment run",
        "experiment report",
        "landscape",
        "detector",
        "profile",
    ],
)
def test_help_has_examples_and_exit_codes(command: str) -> None:
    shown = nitro(*command.split(), "--help")
    assert shown.returncode == 0
    assert f"examples:\n  nitro {command} " in shown.stdout
    assert "exit codes:" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "light"), [(["validate", "JOB"], ("numpy",)), (["explain", "spec.seed"], ())]
)
def test_validate_and_explain_load_no_torch_and_no_environments(
    tmp_path: Path, arguments: list[str], light: tuple[str, ...]
) -> None:
    """What `validate` builds runs in a process of its own; numpy compares its spaces with the network."""
    heavy = {"torch", "matplotlib", "redis", "gymnasium", "numpy"} - {*light}
    given = [str(write_job(tmp_path)) if one == "JOB" else one for one in arguments]
    script = (
        f"import sys; from nitro_learner.cli import main; code = main({given!r}); "
        f"sys.exit(code or 10 * any(name in sys.modules for name in {heavy}))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("command", [[], ["plot"], ["train"]])
def test_help_loads_no_models_of_jobs(command: list[str]) -> None:
    script = (
        "import atexit, os, sys; from nitro_learner.cli import main; "
        f"atexit.register(lambda: os._exit(10 * ('pydantic' in sys.modules))); main([*{command}, '--help'])"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("missing", "arguments", "sentence"),
    [
        ("safetensors", ["serve", "."], "serve loads a policy, which takes more: {0}[play]'"),
        ("nitro_actor", ["export", ".", "--format", "safetensors"], "export loads a policy, {1}{0}[play]'"),
        ("torch", ["export", "{run}", "--format", "onnx"], "needs the package torch: {0}[train,export]'"),
    ],
)
def test_what_only_loads_a_policy_asks_for_no_package_that_trains(
    run: Path, missing: str, arguments: list[str], sentence: str
) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None; from nitro_learner.cli import main; sys.exit(main())"
    )
    words = [word.format(run=run) for word in arguments]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    install = "in a checkout run pip install ./actor-image './learner-image"
    assert sentence.format(install, "which takes more: ") in done.stderr


def test_validate_reports_every_mistake_with_its_path(tmp_path: Path) -> None:
    job = write_job(tmp_path, scaling={"minActors": 9, "maxActors": 3}, seed=-1)
    bad = nitro("validate", "--json", job)
    assert bad.returncode == 2
    result = json.loads(bad.stdout)
    assert result["valid"] is False
    paths = {error["path"] for error in result["errors"]}
    assert "spec.seed" in paths
    assert any(path.startswith("spec.scaling") for path in paths)
    text = nitro("validate", job)
    assert text.returncode == 2
    assert "spec.seed: -1; " in text.stderr


def test_validate_shows_the_resolved_job(tmp_path: Path) -> None:
    shown = nitro("validate", "--resolved", "--set", "spec.seed=11", write_job(tmp_path))
    assert shown.returncode == 0
    assert "gaeLambda: 0.95" in shown.stdout
    assert "seed: 11" in shown.stdout


def test_explain_describes_every_field_and_refuses_unknown_ones() -> None:
    known = nitro("explain", "spec.scaling.decay")
    assert known.returncode == 0
    assert "0.96" in known.stdout
    unknown = nitro("explain", "spec.scaling.decya")
    assert unknown.returncode == 2
    assert "decya" in unknown.stderr


def test_profile_says_when_the_network_does_not_fit(tmp_path: Path) -> None:
    shown = nitro("profile", write_job(tmp_path, network={"type": "conv"}))
    assert shown.returncode == 1
    assert "Traceback" not in shown.stderr
    assert "spec.network" in shown.stderr


def test_profile_measures_a_real_actor(tmp_path: Path) -> None:
    shown = nitro("profile", write_job(tmp_path), "--json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert (result["environment"], result["steps"]) == ("Hopper-v5", 64)
    assert 30 < result["peakMiB"] < 300
    assert result["lambda"]["memoryMiB"] in {row["memoryMiB"] for row in result["lambda"]["settings"]}
    assert result["knative"]["requests"]["memory"].endswith("Mi")


def test_evaluate_repeats_itself(run: Path) -> None:
    first, second = (nitro("evaluate", run, "--episodes", "5", "--json") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    result = json.loads(first.stdout)
    assert len(result["returns"]) == result["episodes"] == 5
    assert result["min"] <= result["mean"] <= result["max"]
    older = nitro("evaluate", run, "--episodes", "2", "--checkpoint", "5")
    assert "round 5, 2 episodes: mean" in older.stdout
    absent = nitro("evaluate", run, "--checkpoint", "99")
    assert absent.returncode == 2
    assert "there are: 4, 5, 6" in absent.stderr


def test_plot_one_run_and_several(run: Path, tmp_path: Path) -> None:
    one = nitro("plot", run, "--out", tmp_path / "one.png")
    assert one.returncode == 0, one.stderr
    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"
    other = shutil.copytree(run, tmp_path / "other")
    several = nitro("plot", run, other, "--out", tmp_path / "two.svg")
    assert several.returncode == 0, several.stderr
    assert b"<svg" in (tmp_path / "two.svg").read_bytes()
    assert several.stderr.splitlines() == [
        f"nitro: {run} and {other} are runs of one job with one seed, 7: they are not independent, but count "
        "as 2 runs of a curve"
    ]
    wrong = nitro("plot", tmp_path)
    assert wrong.returncode == 2
    assert "no job.yaml" in wrong.stderr


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path / "run", 6)
    assert main(["plot", str(run), f"{run}/../run"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{run / 'result.png'}\n", "the picture of one run"
    assert told.err == f"nitro: {tmp_path}/run/../run is given twice and counts once\n"
    one = nitro("detector", run, run)
    assert "only 0 rounds can be repeated" in one.stderr, "of several runs only foresight is reported"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "give a job file"),
        (["train", "absent.yaml"], "absent.yaml"),
        (["train", "--resume", "absent"], "holds no run to resume"),
        (["train", "--resume", "a", "--run-dir", "b"], "leave --run-dir out"),
        (["train", "absent.yaml", "--metrics-port", "65536"], "a port is at most 65535"),
        (["evaluate", "absent"], "is no run folder"),
        (["evaluate", "absent", "--episodes", "0"], "at least 1"),
        (["evaluate", "absent", "--episodes", "99999999999999"], "at least 1, at most 100000"),
        (["evaluate", "absent", "--video", "x.avi"], "--video x.avi: must end in .mp4, .gif or .webp"),
        (["plot", "absent", "--out", "picture"], "must end in .png, .svg or .pdf"),
        (["top", "--interval", "soon"], "soon is not within 0.5 to 3600 seconds"),
        (["nonsense"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_sentence(arguments: list[str], sentence: str) -> None:
    result = nitro(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def _damage(run: Path, name: str) -> None:
    """Cuts a file, or all of a folder, in the middle, as a copy that was broken off does."""
    for path in [run / name] if (run / name).is_file() else (run / name).iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("command", "damaged", "code", "sentence"),
    [
        ("plot", "job.yaml", 2, "job.yaml is damaged"),
        ("report", "job.yaml", 2, "job.yaml is damaged"),
        ("report", "summary.json", 2, "summary.json is damaged"),
        ("evaluate", "checkpoints", 1, "all 3 checkpoints are damaged"),
        ("landscape", "job.yaml", 2, "job.yaml is damaged"),
    ],
)
def test_a_damaged_run_folder_is_named(
    run: Path, tmp_path: Path, command: str, damaged: str, code: int, sentence: str
) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    _damage(copy, damaged)
    result = nitro(command, copy)
    assert result.returncode == code, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_checkpoint_of_another_network_is_not_evaluated(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    job = yaml.safe_load((copy / "job.yaml").read_text())
    job["spec"]["network"]["hiddenSizes"] = [8]
    (copy / "job.yaml").write_text(yaml.safe_dump(job))
    result = nitro("evaluate", copy)
    assert result.returncode == 1, result.stderr
    assert "is not of this job: the state is of the network" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_output_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    """A file stands where a folder should be: unlike rights, this stops root as well."""
    (tmp_path / "file").touch()
    for arguments in (
        ("train", write_job(tmp_path), "--run-dir", tmp_path / "file" / "run"),
        ("plot", run, "--out", tmp_path / "file" / "picture.png"),
    ):
        result = nitro(*arguments)
        assert result.returncode == 1, result.stderr
        told = result.stderr.removeprefix(LOADING)
        assert told.startswith(f"nitro: {arguments[-2]} {tmp_path / 'file'}"), result.stderr
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["validate", "--resolved"], 1, "nitro: the output: No space left on device\n"),
        (["train"], 0, "WARNING: The output cannot be written (No space left on device). This goes on "),
        (["train", "--json"], 0, "WARNING: The output cannot be written (No space left on device). This "),
    ],
)
def test_output_on_a_full_disk_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str], code: int, told: str
) -> None:
    where = ["--run-dir", str(tmp_path / "run")] if arguments[0] == "train" else []
    job = write_job(tmp_path, stop={"rounds": 1})
    command = [sys.executable, "-m", "nitro_learner", *arguments, str(job), *where]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == code, result.stderr
    said = result.stderr.removeprefix(LOADING)
    assert said.startswith(told), result.stderr
    assert said.count("\n") == 1


def test_a_report_on_a_full_disk_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run", 2)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert main(["report", str(run)]) == 1
    assert capsys.readouterr().err == f"nitro: {run / 'report.html'}: No space left on device\n"


@pytest.mark.parametrize("command", EXPERIMENTS)
def test_without_the_experiments_their_commands_say_how_to_install_them(command: str) -> None:
    hidden = (
        "import importlib.metadata as m, sys; m.entry_points = lambda **_: (); "
        "from nitro_learner.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, command, "x"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"nitro: {command} needs the package nitro-experiments, which is not installed: in a checkout run "
        "pip install ./actor-image ./experiments './learner-image[train,experiments]'\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", hidden, "--help"], capture_output=True, text=True, check=True
    )
    assert f"\n    {command}" not in shown.stdout


def test_with_the_experiments_their_commands_are_among_the_others() -> None:
    assert set(EXPERIMENTS) <= set(installed())
    assert not set(EXPERIMENTS) & set(COMMANDS)
