"""The folder of an experiment: what is refused there, and what is not taken for finished."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from experiment_support import pretend, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading.folder import ExperimentDir, machine
from nitro_experiments.writing import experiment_report
from nitro_learner.run.rundir import RunDirError

ANNEALED = {"set": {"spec.algorithm.hyperparameters.learningRateAnneal": True}}


def _trained(directory: Path, **changes: Any) -> tuple[ExperimentDir, Experiment]:
    """An experiment whose runs have two rounds of four actors each."""
    experiment = load(write_spec(directory, **changes))
    folder = ExperimentDir(directory / "results")
    folder.open(experiment)
    for run in plan(experiment):
        pretend(folder, run, actors=[4, 4], returns=[0, 1])
        assert folder.finished(run)
    return folder, experiment


def test_the_folder_of_another_experiment_is_not_changed(tmp_path: Path) -> None:
    folder, experiment = _trained(tmp_path)
    with pytest.raises(RunDirError, match=r"holds the experiment two\. Choose another --dir"):
        folder.open(load(write_spec(tmp_path, name="three")))
    assert load(folder.spec) == experiment
    folder.open(load(write_spec(tmp_path, seeds=[0, 1, 2])))
    assert load(folder.spec).seeds == [0, 1, 2]


def test_an_experiment_that_was_killed_before_its_file_was_written_begins_again(tmp_path: Path) -> None:
    folder, experiment = ExperimentDir(tmp_path / "results"), load(write_spec(tmp_path))
    folder.open(experiment)
    folder.spec.unlink()  # it is written last
    folder.open(experiment)
    assert load(folder.spec) == experiment
    folder.spec.unlink()
    (folder.path / "mine.txt").touch()
    with pytest.raises(RunDirError, match="holds something that is no experiment"):
        folder.open(experiment)


def test_a_run_that_ended_at_a_smaller_budget_is_not_complete_for_a_larger_one(tmp_path: Path) -> None:
    """Also when the run was broken off, by kill -9, before it had gone on to the larger one."""
    folder, _ = _trained(tmp_path)
    run = plan(load(write_spec(tmp_path, budget={"actorRounds": 80})))[0]
    assert not folder.finished(run)
    folder.prepare(run)
    assert not folder.finished(run)


def test_a_run_with_another_learning_rate_schedule_is_not_continued(tmp_path: Path) -> None:
    folder, _ = _trained(tmp_path, budget={"rounds": 2}, **ANNEALED)
    (run, *_) = plan(load(write_spec(tmp_path, budget={"rounds": 4}, **ANNEALED)))
    with pytest.raises(RunDirError, match="its learning rate falls to zero over 2 rounds"):
        folder.finished(run)
    folder.run(run).metrics.unlink()
    assert not folder.finished(run), "nothing of it is trained, so nothing is lost"


def test_a_damaged_list_of_machines_is_named(tmp_path: Path) -> None:
    folder, experiment = _trained(tmp_path)
    folder.add_machine(machine())
    folder.machine.write_text(folder.machine.read_text()[:-3])
    for use in (lambda: folder.add_machine(machine()), lambda: experiment_report.write(folder, experiment)):
        with pytest.raises(RunDirError, match=r"machine\.json is damaged: .*\. Remove it"):
            use()
    folder.machine.unlink()
    assert "on an unknown machine." in experiment_report.write(folder, experiment)
    for entry in (machine(), {**machine(), "cores": 0, "gpu": "NVIDIA H200"}, machine()):
        folder.add_machine(entry)
    assert len(json.loads(folder.machine.read_text())) == 2
    report = experiment_report.write(folder, experiment)
    assert "; and on " in report
    assert report.count(" cores), Python ") == 1
    assert "(0 cores) with NVIDIA H200, Python " in report


def test_runs_that_were_interrupted_have_not_ended_when_seeds_are_told(tmp_path: Path) -> None:
    folder, experiment = _trained(tmp_path)
    interrupted = plan(experiment)[0]
    pretend(folder, interrupted, actors=[4], returns=[0], finished=False)
    folder.open(load(write_spec(tmp_path, seeds=[0, 1, 2])))
    assert folder.seed_history() == [{"seeds": [0, 1], "ended": 0}, {"seeds": [0, 1, 2], "ended": 3}]


def test_seeds_are_still_the_first_ones_while_all_runs_are_interrupted(tmp_path: Path) -> None:
    folder, experiment = _trained(tmp_path)
    for run in plan(experiment):
        pretend(folder, run, actors=[4], returns=[0], finished=False)
    folder.open(load(write_spec(tmp_path, seeds=[5, 6])))
    assert folder.seed_history() == [{"seeds": [5, 6], "ended": 0}]


def test_clusters_that_are_added_at_the_same_time_are_all_listed(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path)
    entries = [{"cluster": number} for number in range(16)]
    with ThreadPoolExecutor(len(entries)) as threads:
        list(threads.map(folder.add_machine, entries))
    assert sorted(folder.machines(), key=lambda one: one["cluster"]) == entries
