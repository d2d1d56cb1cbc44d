"""A user's own environment that raises, ends its process or hangs: what the user is told, by real runs."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs_support import ROOT
from local_support import local_round, sample, spec, until
from nitro_learner.backends.base import BackendError
from nitro_learner.backends.local import LocalBackend
from nitro_learner.backends.processes import ChildProcess
from nitro_learner.sampling.plans import RoundFailed
from train_support import job, nitro

SOURCE = """
import os, signal, time

import gymnasium
import numpy as np


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (11,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, fault="none", where="step"):
        self.fault, self.where, self.steps = fault, where, 0
        if where == "init":
            self.fail()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.where == "reset":
            self.fail()
        return np.zeros(11, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.where == "step" and self.steps > 5:
            self.fail()
        return np.zeros(11, np.float32), 1.0, self.steps % 20 == 0, False, {}

    def fail(self):
        print("the robot stumbles")
        if self.fault == "raise":
            np.linalg.inv(np.zeros((2, 2)))  # RAISES
        if self.fault == "leave":
            raise SystemExit("goodbye")  # LEAVES
        if self.fault == "interrupt":
            raise KeyboardInterrupt  # INTERRUPTS
        if self.fault == "long":
            raise ValueError("bad table: " + 70_000 * "x" + " its end")  # LONG
        if self.fault == "odd":
            raise Unprintable  # ODD
        if self.fault == "exit":
            os._exit(3)
        if self.fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)  # CRASHES
        while self.fault == "hang":
            time.sleep(1)  # HANGS
"""

NITRO = str(Path(sys.executable).with_name("nitro"))
"""The program, which unlike `python -m` does not look for modules in the folder that it runs in."""


def line_of(comment: str) -> int:
    return next(n for n, line in enumerate(SOURCE.splitlines(), 1) if line.endswith(f"# {comment}"))


def write(folder: Path, **kwargs: str) -> None:
    """The environment's module and a job of one actor."""
    (folder / "mine.py").write_text(SOURCE)
    environment = {
        "id": "Mine-v0",
        "entryPoint": "mine:Mine",
        "rolloutLength": 16,
        "envsPerActor": 1,
        "kwargs": kwargs,
    }
    small = job(
        environment=environment,
        scaling={"scaler": "fixed", "minActors": 1, "initialActors": 1, "maxActors": 1},
        backend={"type": "Local", "local": {"processes": 1}},
        evaluation={"episodes": 2, "everyRounds": 10},
        actor={"timeoutSeconds": 10 if kwargs.get("fault") == "hang" else 60},
        stop={"rounds": 1},
    )
    (folder / "job.yaml").write_text(yaml.safe_dump(small))


def train(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `nitro train` in a folder, as a fork. Where the program looks for modules is not in question."""
    with contextlib.chdir(folder):
        return nitro("train", *(arguments or ("job.yaml", "--run-dir", "run")))


def program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in a folder, with nothing on PYTHONPATH."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [NITRO, *arguments],
        cwd=folder,
        env=variables | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def tracebacks(folder: Path) -> str:
    """All tracebacks in the log of the run."""
    lines = (folder / "run" / "log.jsonl").read_text().splitlines()
    return "\n".join(json.loads(line).get("traceback", "") for line in lines)


TOLD = {
    "raise": f"step of environment 0 raised LinAlgError: Singular matrix (FILE:{line_of('RAISES')} in fail)",
    "leave": f"step of environment 0 raised SystemExit: goodbye (FILE:{line_of('LEAVES')} in fail)",
    "interrupt": f"step of environment 0 raised KeyboardInterrupt (FILE:{line_of('INTERRUPTS')} in fail)",
    "long": "step of environment 0 raised ValueError: bad table: xxx",
    "odd": "step of environment 0 raised Unprintable: (its text cannot be shown, because __str__ raised "
    f"RuntimeError) (FILE:{line_of('ODD')} in fail)",
    "exit": "the actor process exited with code 3 in the midst of a rollout",
    "crash": "the actor process was ended by signal SIGSEGV in the midst of a rollout, in step() at "
    f"FILE:{line_of('CRASHES')} in fail",
    "hang": f"step() at FILE:{line_of('HANGS')} in fail hangs: the actor did not answer in 10 s",
}


@pytest.mark.parametrize("fault", TOLD)
def test_train_names_the_failure_of_the_environment_and_its_line_first(tmp_path: Path, fault: str) -> None:
    write(tmp_path, fault=fault)
    failed = train(tmp_path)
    assert failed.returncode == 1, failed.stderr
    lines = failed.stderr.splitlines()
    cause = TOLD[fault].replace("FILE", str(tmp_path / "mine.py"))
    assert any(line.startswith(f"nitro: round 1 failed: {cause}") for line in lines), failed.stderr
    assert len(lines) <= 16, failed.stderr
    assert "the robot stumbles" in (tmp_path / "run" / "actors.log").read_text()
    assert "What the actors printed is in run/actors.log." in lines
    if fault == "long":
        _require_whole_text(tmp_path, failed.stderr)
    if fault in ("exit", "crash", "hang"):
        assert lines.count("  the robot stumbles") == 2, "once in a warning, once with the failure"
    if fault != "exit":
        assert "The full traceback is in run/log.jsonl." in lines
        assert str(tmp_path / "mine.py") in tracebacks(tmp_path)


def _require_whole_text(folder: Path, told: str) -> None:
    """The message has the beginning and the place of a long text, and the actors' log has all of it."""
    assert (
        f" more characters are in the actor's log) ({folder / 'mine.py'}:{line_of('LONG')} in fail)" in told
    )
    assert len(told) < 5_000
    assert 70_000 * "x" + " its end" in (folder / "run" / "actors.log").read_text()


def test_train_continues_after_the_environment_was_fixed(tmp_path: Path) -> None:
    write(tmp_path, fault="raise")
    failed = train(tmp_path)
    assert "If you resume now, it fails in the same way. Mend the environment's code first" in failed.stderr
    go_on = "Then go on: nitro "
    command = next(line for line in failed.stderr.splitlines() if line.startswith(go_on))
    (tmp_path / "mine.py").write_text(SOURCE.replace("np.linalg.inv(np.zeros((2, 2)))", "pass"))
    again = train(tmp_path, *command.removeprefix(f"{go_on}train ").split())
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("where", ["init", "reset"])
def test_train_says_where_the_environment_raised_at_its_start(tmp_path: Path, where: str) -> None:
    write(tmp_path, fault="raise", where=where)
    failed = train(tmp_path)
    assert failed.returncode == 1
    assert (
        f"LinAlgError: Singular matrix ({tmp_path / 'mine.py'}:{line_of('RAISES')} in fail)" in failed.stderr
    )
    assert "The full traceback is in run/log.jsonl." in failed.stderr
    assert "in fail\n" in tracebacks(tmp_path)


def test_a_long_text_at_the_start_is_cut_too(tmp_path: Path) -> None:
    write(tmp_path, fault="long", where="init")
    failed = train(tmp_path)
    assert failed.returncode == 1, failed.stderr
    assert "Mine cannot be built: ValueError: bad table: xxx" in failed.stderr
    _require_whole_text(tmp_path, failed.stderr)


def test_evaluate_finds_an_environment_in_the_folder_as_train_does(tmp_path: Path) -> None:
    write(tmp_path)
    trained = program(tmp_path, "train", "job.yaml", "--run-dir", "run")
    assert trained.returncode == 0, trained.stderr
    played = program(tmp_path, "evaluate", "run", "--episodes", "2")
    assert played.returncode == 0, played.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lost = program(elsewhere, "evaluate", "../run")
    assert lost.returncode == 2
    assert f"run nitro in the folder that holds mine (now it runs in {elsewhere})" in lost.stderr
    assert "PYTHONPATH" in lost.stderr
    assert "image" not in lost.stderr


def own(**kwargs: str) -> dict[str, Any]:
    return {
        "id": "Mine-v0",
        "entryPoint": "mine:Mine",
        "rolloutLength": 16,
        "envsPerActor": 1,
        "kwargs": kwargs,
    }


async def test_a_process_that_dies_repeatedly_is_replaced_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It dies in every third rollout, so the same rollout succeeds in a fresh process."""
    source = SOURCE.replace("self.steps > 5", "self.steps > 40")
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    caplog.set_level("INFO", "nitro_learner.backends.local")
    async with local_round(spec(1, own(fault="exit"))) as (_, _, work):
        result = await sample(work, 7, steps=16)
    assert [fragment.slot for fragment in result.fragments] == list(range(7))
    assert set(result.stats.retries) == {"died"}
    told = [record.levelname for record in caplog.records if "exited with code 3" in record.message]
    assert len(told) >= 2
    assert told.count("WARNING") == 1


async def test_a_process_killed_from_outside_is_not_the_environments_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SOURCE.replace("os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("nitro_learner.backends.tasks.group.MAX_TRIES", 1)
    async with local_round(spec(1, own(fault="exit"))) as (_, _, work):
        with pytest.raises(RoundFailed, match=r"ended by signal SIGKILL.*memory ran out") as failed:
            await sample(work, 1, steps=16)
    assert failed.value.resumable
    assert not failed.value.evidence.environment


async def test_an_environment_that_hangs_while_it_is_built_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    output, original = tmp_path / "actors.log", ChildProcess.until

    async def impatient(self: ChildProcess, ready: asyncio.Future[Any], timeout: float) -> Any:
        """The limit is over as soon as the environment hangs."""
        await asyncio.to_thread(until, lambda: ready.done() or bool(sizes(tmp_path)))
        return await original(self, ready, timeout if ready.done() else 0.0)

    monkeypatch.setattr(ChildProcess, "until", impatient)
    backend = LocalBackend(spec(1, own(fault="hang", where="init")), "run-1", output=output)
    with pytest.raises(
        BackendError, match=rf"It stands in __init__\(\) at .*mine.py:{line_of('HANGS')} in fail"
    ):
        await backend.start()


def sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in folder.glob("actors.log*")}


async def test_the_actors_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.replace("self.steps += 1", "self.steps += 1; print(self.steps, 'x' * 100)")
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("nitro_learner.backends.output._FILE_BYTES", 10_000)
    path = tmp_path / "actors.log"
    async with local_round(spec(1, own()), output=path) as (_, _, work):
        await sample(work, 1, steps=512)
    kept = sizes(tmp_path)
    assert set(kept) == {"actors.log", "actors.log.1"}
    assert all(size <= 10_000 for size in kept.values())
    assert "actor process 0: 512 xxx" in path.read_text()


async def test_structured_lines_of_the_environment_are_output_and_the_actors_own_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        {"event": "reset", "level": "info"},
        {"event": "reset", "level": "error", "time": "2026-01-01T00:00:00Z"},
        {"event": "reset", "time": 1.5},
    ]
    printing = f"self.steps += 1; print({chr(10).join(map(json.dumps, lines))!r})"
    (tmp_path / "mine.py").write_text(SOURCE.replace("self.steps += 1", printing))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = tmp_path / "actors.log"
    async with local_round(spec(1, own()), output=path) as (_, _, work):
        await sample(work, 1, steps=16)
    text = path.read_text()
    assert all(f"actor process 0: {json.dumps(line)}" in text for line in lines)
    assert not re.search("ready|listening|done", text)


def test_the_documented_environment_learns(tmp_path: Path) -> None:
    """docs/environments.md shows it, and says where its return is after 30 rounds."""
    page = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    source, job_file = (
        textwrap.dedent(re.search(rf"(?m)^    {begin}[^\n]*\n(?:    [^\n]*\n|\n)*", page)[0])
        for begin in ("import gymnasium", "apiVersion")
    )
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "line.py").write_text(source, encoding="utf-8")
    (tmp_path / "line.yaml").write_text(job_file, encoding="utf-8")
    done = program(tmp_path, "train", "line.yaml", "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["evaluation"]["mean"] > -20
