"""Searches of `nitro experiment`, with trials that really train."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
import yaml

from experiment_support import spec
from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.search import comparison
from nitro_experiments.search.searcher import Searcher
from train_support import SUPPORT, nitro, rows_of, start, wait_for_rows

SPACE = {"spec.algorithm.hyperparameters.learningRate": {"low": 1e-4, "high": 1e-2, "log": True}}


def file(directory: Path, trials: int, rounds: int) -> Path:
    wanted = spec(
        search={"trials": trials, "seeds": [7], "space": SPACE}, seeds=[0], budget={"rounds": rounds}
    )
    del wanted["variants"]
    path = directory / "search.yaml"
    path.write_text(yaml.safe_dump(wanted))
    return path


def test_a_killed_search_loses_no_trial_and_repeats_none(tmp_path: Path) -> None:
    path, results = file(tmp_path, trials=2, rounds=3), tmp_path / "results"
    command = ("experiment", "run", path, "--dir", results, "--jobs", "2")
    runner = start(*command)
    for number in ("0000", "0001"):
        wait_for_rows(results / "trials" / number / "seed-7", 1, runner)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    begun = [trial.settings for trial in comparison.open_study(ExperimentDir(results), load(path)).trials()]
    again = nitro(*command)
    assert again.returncode == 0, again.stderr
    trials = comparison.open_study(ExperimentDir(results), load(path)).trials()
    assert [(trial.number, trial.state) for trial in trials] == [(n, "complete") for n in range(2)]
    assert [trial.settings for trial in trials][: len(begun)] == begun
    for trial in trials:
        run = results / "trials" / f"{trial.number:04d}" / "seed-7"
        assert [int(row["round"]) for row in rows_of(run)] == [1, 2, 3]
        job = yaml.safe_load((run / "job.yaml").read_text())["spec"]
        rate = job["algorithm"]["hyperparameters"]["learningRate"]
        assert rate == trial.settings["spec.algorithm.hyperparameters.learningRate"]
    report = (results / "report.md").read_text()
    assert "2 of 2 trials have ended (2 complete, 0 pruned, 0 failed)" in report
    assert "2 of 2 runs are finished" in report or "nothing to compare" in report


async def test_a_pruned_run_ends_after_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other trials' scores are made up, and far above what this environment has."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    experiment, folder = load(file(tmp_path, trials=6, rounds=100)), ExperimentDir(tmp_path / "results")
    folder.path.mkdir()
    folder.open(experiment)
    study = comparison.open_study(folder, experiment)
    for _ in range(5):
        trial = study.ask()
        for step in range(3, 10):
            study.report(trial, step, 1e6)
        study.end(trial, "complete", score=1e6, spent={"rounds": 100})

    class Place(LocalRuns):
        async def discard(self, run: PlannedRun) -> None:
            discarded.append((str(run.folder), study.trials()[-1].state))

    discarded: list[tuple[str, str]] = []
    searcher = Searcher(folder, experiment, study, Place(folder), jobs=1)
    told: list[int] = []
    searcher.ended = lambda trial: told.append(trial.number)
    async with asyncio.timeout(300):
        await searcher.search()
    last = study.trials()[-1]
    assert (told, last.state) == ([5], "pruned")
    assert discarded == [("trials/0005/seed-7", "running")], "before the study says that nothing goes on"
    assert last.reached is not None
    assert last.reached[0] == 0.3
    run = folder.path / "trials" / "0005" / "seed-7"
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["finished"], summary["rounds"]) == (False, last.spent["rounds"])
    assert (run / "checkpoints" / f"round-{summary['rounds']:06d}.safetensors").exists()


def test_an_environment_that_cannot_be_built_ends_the_search(tmp_path: Path) -> None:
    path = file(tmp_path, trials=2, rounds=1)
    command = ("experiment", "run", path, "--dir", tmp_path / "results", "--jobs", "1")
    wrong = nitro(*command, "--set", "set={spec.environment.entryPoint: no_such_module:X}")
    assert wrong.returncode == 1
    assert "The search has stopped. trials/0000/seed-7: exit code" in wrong.stderr
    assert "no_such_module" in wrong.stderr
    assert "goes on with the search" in wrong.stderr
    assert not (tmp_path / "results" / "trials" / "0001").exists()
