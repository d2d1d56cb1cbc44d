"""The check's own process: whatever an environment does in it, the command ends, says what was found, and
leaves nothing behind. A training that is checked has the results of one that is not.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_api.spec.environment import Environment
from nitro_learner.cli import main
from nitro_learner.run.check_listener import EnvironmentCheck
from nitro_learner.run.checking.report import Report

SUPPORT = Path(__file__).parents[1] / "support"
LONG = 120.0
RESOLVED = {"id": "x", "rolloutLength": 64, "envsPerActor": 1, "frameStack": 1, "clipRewards": False}


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))


def running(name: str, seconds: float = LONG, **kwargs: Any) -> EnvironmentCheck:
    given = RESOLVED | {"entryPoint": f"broken_environments:{name}", "kwargs": kwargs}
    return EnvironmentCheck(Environment.model_validate(given), seconds)


def final_report(name: str, **kwargs: Any) -> Report:
    return running(name, **kwargs).final_report()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"


def until(condition: Any) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_an_environment_prints_is_no_finding() -> None:
    report = final_report("Prints")
    assert report.ended
    assert report.sound
    assert report.measured["resumable"]


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("constructor", "SystemExit: no licence"),
        ("step", "step raised SystemExit: no licence"),
        ("crash", "its process ended with code 7, while it was checked"),
    ],
)
def test_an_environment_that_exits_has_a_fault(when: str, said: str) -> None:
    report = final_report("Exits", when=when)
    assert not report.sound
    assert said in " ".join([report.error, *report.faults])


def test_an_environment_that_is_built_for_too_long_is_not_checked_beside_a_start() -> None:
    report = running("Slow", building=600).report(0.05)
    assert report.sound
    assert report.unchecked == {"all of it": "there was no time for it"}


def test_a_call_that_hangs_is_a_fault_that_names_it_and_the_seconds() -> None:
    check = running("Slow", 0.5, step=600)
    (fault,) = check.final_report().faults
    assert re.match(r"step had not returned after 1\d\.\d s: it hangs, or is too slow for an actor", fault)
    assert "`nitro check-env --seconds 60` waits longer" in fault
    until(lambda: gone(check.pid))


def test_threads_and_processes_that_are_left_are_named_and_end_with_the_check(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    report = final_report("LeavesThings", file=str(file))
    assert "close leaves threads that run on: left; end them in close" in report.warnings
    assert "close leaves child processes that run on; end them in close" in report.warnings
    until(lambda: gone(int(file.read_text())))


def test_a_check_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = f"""
import sys, time
from nitro_api.spec.environment import Environment
from nitro_learner.run.check_listener import EnvironmentCheck
given = {RESOLVED!r} | {{
    "entryPoint": "broken_environments:LeavesThings", "kwargs": {{"file": {str(file)!r}}}
}}
check = EnvironmentCheck(Environment.model_validate(given), 600)
print(check.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until(lambda: file.exists() and file.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: gone(child) and gone(int(file.read_text())))


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("broken_environments:Sound", 0, ["broken_environments:Sound: sound", "a step takes", "a state has"]),
        ("broken_environments:OtherDtype", 2, ["OtherDtype: 1 fault\n  fault    the observation that reset"]),
        ("broken_environments:Nothing", 2, ["1 fault", "correct what stands after the colon"]),
        ("nowhere:Own", 2, ["No module named 'nowhere'"]),
        ("CartPole-v1", 0, ["CartPole-v1: sound", "  remark   gymnasium's check_env: A Box"]),
        ("mpe2/simple_spread_v3", 0, ["simple_spread_v3: sound"]),
    ],
)
def test_check_env_takes_an_id_or_an_entry_point(
    given: str, code: int, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-env", given, "--seconds", "120"]) == code
    out = capsys.readouterr().out
    assert [text for text in said if text not in out] == []


def test_check_env_takes_a_job_and_answers_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "Pair", how="seed ignored")
    assert (
        main(
            [
                "check-env",
                str(path),
                "--json",
                "--seconds",
                "120",
                "--set",
                "spec.environment.kwargs.how=outside",
            ]
        )
        == 2
    )
    told = json.loads(capsys.readouterr().out)
    assert told["environment"] == "broken_environments:Pair"
    assert not told["sound"]
    assert "outside of its space" in told["faults"][0]
    assert told["measured"]["resumable"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.yaml"], "nothing.yaml: no such job file"),
        (["CartPole-v1", "--seconds", "0"], "'0' must be a number of seconds, above 0 and at most 3600"),
        (["CartPole-v9"], "did you mean CartPole-v1?"),
    ],
)
def test_check_env_refuses_what_it_cannot_read(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["check-env", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert said in capsys.readouterr().err


def written(folder: Path, name: str, **kwargs: Any) -> Path:
    several = name == "Pair"
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "case"},
        "spec": {
            "environment": {
                "entryPoint": f"broken_environments:{name}",
                "kwargs": kwargs,
                "envsPerActor": 1,
                "rolloutLength": 64,
            },
            "algorithm": {"name": "ippo" if several else "ppo"},
            "network": {"hiddenSizes": [8]},
            "scaling": {"scaler": "fixed", "minActors": 1, "maxActors": 1},
            "backend": {"type": "Local", "local": {"processes": 1}},
            "stop": {"rounds": 2},
        },
    }
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


@pytest.mark.slow
def test_a_training_is_checked_beside_its_start_and_has_the_same_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(written(tmp_path, "ChangesAction"))
    assert main(["train", job, "--run-dir", str(tmp_path / "checked")]) == 0
    capsys.readouterr()
    log = (tmp_path / "checked/log.jsonl").read_text()
    # On a machine that is busy it was not built in time.
    assert "The environment has a fault: step changes the action" in log or "Not checked" in log
    assert main(["train", job, "--run-dir", str(tmp_path / "unchecked"), "--no-check"]) == 0
    assert "environment has" not in (tmp_path / "unchecked/log.jsonl").read_text()
    checked, unchecked = (columns(tmp_path / name / "metrics.csv") for name in ("checked", "unchecked"))
    assert checked == unchecked


@pytest.mark.slow
def test_a_network_that_does_not_fit_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, folder = str(written(tmp_path, "Sound")), str(tmp_path / "run")
    conv = ["--set", "spec.network.type=conv", "--set", "spec.network.hiddenSizes=null"]
    assert main(["train", job, "--no-check", "--run-dir", folder, *conv]) == 2
    assert "conv needs images of shape" in capsys.readouterr().err


CONV = ["spec.network.type=conv", "spec.network.hiddenSizes=null"]
MISSING = ["spec.environment.entryPoint=nowhere:Own"]
RESUMED = ["spec.resumeFrom.job=other"]


@pytest.mark.parametrize(
    ("changes", "said", "checked"),
    [
        (CONV, "conv needs images of shape", 2),
        (MISSING, "No module named 'nowhere'", 2),
        (RESUMED, "", 0),  # the environment is sound, and the job is for a cluster
    ],
)
def test_validate_refuses_what_train_refuses_and_check_env_what_is_the_environments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: list[str], said: str, checked: int
) -> None:
    job = str(written(tmp_path, "Sound"))
    options = [word for change in changes for word in ("--set", change)]
    assert main(["check-env", job, *options]) == checked
    assert said in capsys.readouterr().out
    assert main(["validate", job, *options]) == 2
    assert (said or "spec.resumeFrom") in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"), [(MISSING, "No module named 'nowhere'"), (RESUMED, "starts a run on a cluster only")]
)
def test_train_ends_with_the_code_of_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: list[str], said: str
) -> None:
    job, folder = str(written(tmp_path, "Sound")), str(tmp_path / "run")
    options = [word for change in changes for word in ("--set", change)]
    assert main(["train", job, "--no-check", "--run-dir", folder, *options]) == 2
    assert said in capsys.readouterr().err


def columns(path: Path) -> list[list[str]]:
    """What does not depend on the machine's speed, of each round."""
    names, *rows = [line.split(",") for line in path.read_text().splitlines()]
    kept = [
        names.index(name) for name in ("round", "reward_mean", "kl", "entropy", "value_loss", "policy_loss")
    ]
    return [[row[index] for index in kept] for row in rows]
