"""`nitro experiment`, `nitro landscape` and `nitro detector` as a user runs them, on real training runs."""

import csv
import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiment_support import pretend, write_spec
from learner_support import plain
from local_support import alive, until
from nitro_api import load_job, resolve
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import load
from nitro_experiments.quality.branches import BranchDir, branches, gains
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.running.runner import Runner, RunState, Watcher
from nitro_experiments.studies.probe import opened, repeatable
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.checkpoints.store import load as load_checkpoint
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import open_run
from report_support import run_folder
from train_support import nitro, rows_of, start, wait_for_rows, write_job

SMALL = {"seeds": [0], "budget": {"actorRounds": 40}}


def _pids(word: Path) -> list[int]:
    """Processes whose command line names the path."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(word).encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that was killed -9 when its second run had begun, and started again."""
    directory = tmp_path_factory.mktemp("experiment")
    spec, folder = write_spec(directory, **SMALL), directory / "results"
    command = ("experiment", "run", spec, "--dir", folder, "--jobs", "1")
    runner = start(*command)
    first, second = (folder / "runs" / "two-state" / name / "seed-0" for name in ("fixed", "nitro"))
    wait_for_rows(second, 1, runner)
    done = (first / "log.jsonl").read_bytes(), (first / "summary.json").read_bytes()
    children = [pid for pid in _pids(folder) if pid != runner.pid]
    assert children
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    until(lambda: not any(alive(pid) for pid in children))
    again = nitro(*command)
    assert again.returncode == 0, again.stderr
    assert "2 runs, 1 to do" in again.stdout
    assert "two-state nitro seed 0" in again.stdout
    assert "two-state fixed seed 0" not in again.stdout
    assert ((first / "log.jsonl").read_bytes(), (first / "summary.json").read_bytes()) == done
    return folder


def test_all_runs_reach_the_budget_and_are_reported(results: Path) -> None:
    for variant in ("fixed", "nitro"):
        run = results / "runs" / "two-state" / variant / "seed-0"
        assert json.loads((run / "summary.json").read_text())["reason"] == "ActorRoundsDone"
        spent = [int(row["actors"]) for row in rows_of(run)]
        assert sum(spent) >= 40 > sum(spent[:-1])
    text = (results / "report.md").read_text()
    assert "2 of 2 runs are finished" in text
    assert "| nitro - fixed |" in text
    again = nitro("experiment", "report", results)
    assert again.returncode == 0, again.stderr
    assert (results / "report.md").read_text() == text


def test_a_finished_experiment_is_priced_by_a_list(results: Path, tmp_path: Path) -> None:
    """A learner of 3,600 dollars per hour costs a dollar per modelled second; actors cost nothing."""
    folder, page = tmp_path / "results", tmp_path / "page.md"
    shutil.copytree(results, folder)
    prices = tmp_path / "prices.yaml"
    free = {"lambdaGBSecond": 0, "lambdaRequest": 0, "provisionedGBSecond": 0}
    given = {"name": "dear", "learner": "a machine", "source": "Made up."}
    prices.write_text(yaml.safe_dump({**given, "pricing": {"learnerDollarsPerHour": 3600, **free}}))
    priced = nitro("experiment", "report", folder, "--prices", prices, "--into", page)
    assert priced.returncode == 0, priced.stderr
    text = (folder / "report.md").read_text()
    assert "### Modelled cost: dear" in text
    cost, seconds = re.search(r"\| nitro \| \$([\d.]+) \| ([\d.]+) \|", text).groups()
    assert float(cost) > 0
    assert float(cost) == pytest.approx(float(seconds), abs=0.06)
    assert "Modelled cost: dear" in page.read_text()
    prices.write_text(yaml.safe_dump({**given, "pricing": {"learnerDollarPerHour": 3600}}))
    wrong = nitro("experiment", "report", folder, "--prices", prices)
    assert wrong.returncode == 2
    assert "did you mean learnerDollarsPerHour?" in wrong.stderr


def test_nothing_is_trained_again_and_another_job_is_refused(results: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **SMALL)
    here = json.loads((results / "machine.json").read_text())
    elsewhere = [{**entry, "cores": 99} for entry in here]
    (results / "machine.json").write_text(json.dumps(elsewhere))
    again = nitro("experiment", "run", spec, "--dir", results, "--json")
    assert again.returncode == 0, again.stderr
    assert again.stdout == ""
    assert json.loads((results / "machine.json").read_text()) == elsewhere, "this machine has trained nothing"
    (results / "machine.json").write_text(json.dumps(here))
    changed = nitro("experiment", "run", spec, "--dir", results, "--set", "set={spec.scaling.maxActors: 3}")
    assert changed.returncode == 2
    assert "spec.scaling.maxActors: 4 in the folder, 3 now" in changed.stderr
    assert nitro("experiment", "report", results).returncode == 0, "what was refused has changed the folder"
    wrong = nitro("experiment", "run", write_spec(tmp_path, variants={"odd": {"spec.scalin.x": 1}}))
    assert wrong.returncode == 2
    assert "variants.odd: spec.scalin: " in wrong.stderr
    assert "did you mean scaling?" in wrong.stderr


def test_a_failed_run_is_reported_with_its_reason(tmp_path: Path) -> None:
    absent = {"spec.environment.entryPoint": "no_such_module:Environment"}
    spec = write_spec(tmp_path, seeds=[0, 1], variants={"absent": absent, "fixed": {}}, budget={"rounds": 1})
    failed = nitro("experiment", "run", spec, "--dir", tmp_path / "results", "--jobs", "1")
    assert failed.returncode == 1
    assert "2 of 4 runs failed" in failed.stderr
    assert "absent/seed-1: not tried, because runs/two-state/absent/seed-0 failed before" in failed.stderr
    assert not (tmp_path / "results" / "runs" / "two-state" / "absent" / "seed-1").exists()
    assert "no_such_module" in failed.stderr
    assert "nitro train --resume" in failed.stderr
    assert f"nitro experiment report {tmp_path / 'results'}" in failed.stderr


def test_a_run_that_could_not_begin_is_trained_when_it_is_corrected(tmp_path: Path) -> None:
    changes = {"seeds": [0], "variants": {"fixed": {}}, "budget": {"rounds": 1}}
    command = ("experiment", "run", write_spec(tmp_path, **changes), "--dir", tmp_path / "results")
    wrong = nitro(*command, "--set", "variants.fixed={spec.environment.entryPoint: no_such_module:X}")
    assert wrong.returncode == 1, wrong.stderr
    right = nitro(*command)
    assert right.returncode == 0, right.stderr


def test_an_experiment_goes_on_where_nobody_reads_its_output(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, seeds=[0], budget={"rounds": 2})
    runner = start("experiment", "run", spec, "--dir", tmp_path / "results", "--jobs", "1", "--json")
    assert runner.stdout is not None
    assert runner.stderr is not None
    assert json.loads(runner.stdout.readline())["status"] == "running"
    runner.stdout.close()
    told = runner.stderr.read()
    assert runner.wait() == 0
    assert told.splitlines() == [
        "The output cannot be written (Broken pipe). This goes on without it.",
        f"report: {tmp_path / 'results' / 'report.md'}",
    ]


async def test_a_run_that_is_stopped_at_its_start_can_go_on(tmp_path: Path) -> None:
    class AtOnce(Watcher):
        def changed(self, state: RunState) -> None:
            seen.append(state.status)
            runner.interrupt()

    seen: list[str] = []
    experiment = load(write_spec(tmp_path, seeds=[0]))
    assert experiment.budget
    folder = ExperimentDir(tmp_path / "results")
    runner = Runner(folder, plan(experiment), experiment.budget, LocalRuns(folder), jobs=1)
    runner.watcher = AtOnce()
    await runner.train()
    assert seen == ["running", "stopped"]


def test_commands_are_shown_and_end_with_the_experiment(tmp_path: Path) -> None:
    """The second command would wait for ever: nobody writes into its pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    commands = ["python -c 'print(1 + 1)'", f"python -c \"open('{pipe}').read()\""]
    spec = tmp_path / "commands.yaml"
    spec.write_text(json.dumps({"name": "two", "figure": "None.", "coreHours": 1, "commands": commands}))
    runner = start("experiment", "run", spec, "--dir", tmp_path / "results")
    assert runner.stdout is not None
    assert runner.stdout.readline() == "2\n"
    until(lambda: bool(_pids(pipe)))
    children = _pids(pipe)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    until(lambda: not any(alive(pid) for pid in children))


def test_a_landscape_has_the_detectors_ratio_and_the_policys_return_in_its_middle(results: Path) -> None:
    run = results / "runs" / "two-state" / "nitro" / "seed-0"
    done = nitro("landscape", run, "--round", "2", "--points", "3", "--episodes", "2")
    assert done.returncode == 0, done.stderr
    row = rows_of(run)[1]
    assert f"round 2: R {float(row['convexity_ratio']):.4g}, " in done.stdout
    with (run / "landscape" / "round-000002.csv").open() as file:
        points = [{name: float(value) for name, value in point.items()} for point in csv.DictReader(file)]
    assert len(points) == 9
    middle = points[4]
    assert (middle["along_lambda_max"], middle["along_lambda_min"]) == (0, 0)
    # Every episode of this environment has the same return under one deterministic policy, so the evaluation
    # of that policy in training says what the middle must be.
    assert middle["return"] == pytest.approx(float(rows_of(run)[2]["evaluation_mean"]))
    assert (run / "landscape" / "round-000002.png").read_bytes()[:4] == b"\x89PNG"
    absent = nitro("landscape", run, "--round", "99")
    assert absent.returncode == 2
    assert "Rounds that can be repeated: 1, 2, " in absent.stderr


def test_the_detectors_quality_is_reported(results: Path) -> None:
    run = results / "runs" / "two-state" / "nitro" / "seed-0"
    done = nitro("detector", run, "--rounds", "3", "--repeats", "2", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["repeats"] == 2
    ratio = report["statistics"]["convexity_ratio"]
    assert ratio["noiseShare"] == pytest.approx(1 - ratio["icc"])
    assert -1 <= ratio["splitHalf"] <= 1
    assert {"splitHalf", "icc", "iccOfChanges"} <= report["statistics"]["advantage_std"].keys()


def test_of_several_runs_only_foresight_is_reported(tmp_path: Path) -> None:
    runs = [run_folder(tmp_path / name, 6) for name in ("a", "b")]
    nothing = nitro("detector", *runs)
    assert nothing.returncode == 2
    assert "Give runs of at least 5 rounds" in nothing.stderr
    for run in runs:
        rows = [row | {"reward_round": k * k, "kl": k} for k, row in enumerate(rows_of(run))]
        with (run / "metrics.csv").open("w") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    both = nitro("detector", *runs)
    assert both.returncode == 0, both.stderr
    assert both.stdout.split() == ["statistic", "next", "round", "kl", "1.00"]


def test_branches_differ_in_when_they_spend_their_actors(results: Path, tmp_path: Path) -> None:
    source = RunDir(results / "runs" / "two-state" / "nitro" / "seed-0")
    job = resolve(load_job(source.job))
    planned = branches(job, rounds=[2], factor=2, seeds=1, ahead=2)
    planted = BranchDir(tmp_path, source)
    spent = {}
    for run in planned:
        opened = open_run(planted.prepare(run), run.job, resume=True)
        assert opened.checkpoint is not None
        assert opened.checkpoint.round == 2
        assert [row["round"] for row in opened.history] == [1, 2]
        done = nitro("train", "--resume", planted.run(run).path)
        assert done.returncode == 0, done.stderr
        spent[run.variant] = [int(row["actors"]) for row in rows_of(planted.run(run).path)[2:]]
    assert spent == {"round-2-base": [1, 1], "round-2-sooner": [2, 1], "round-2-later": [1, 1, 1]}
    final = {
        run.variant: json.loads(planted.run(run).summary.read_text())["evaluation"]["mean"] for run in planned
    }
    found = gains(planted, planned, [2])
    assert found.sooner.item() == final["round-2-sooner"] - final["round-2-base"]
    assert found.later.item() == final["round-2-later"] - final["round-2-base"]


async def test_additional_slots_of_a_branch_begin_where_a_slot_ended(tmp_path: Path) -> None:
    """They have random numbers of their own: for the policy's actions and for the environments."""
    job = write_job(tmp_path, scaling={"scaler": "fixed", "minActors": 2, "maxActors": 3}, stop={"rounds": 1})
    trained = nitro("train", job, "--run-dir", tmp_path / "run")
    assert trained.returncode == 0, trained.stderr
    source = RunDir(tmp_path / "run")
    ends = load_checkpoint(CheckpointStore(source.checkpoints, keep_last=1).path(1)).state["training"][
        "end_states"
    ]
    (_, sooner, _) = branches(resolve(load_job(source.job)), rounds=[1], factor=3, seeds=1, ahead=1)
    planted = BranchDir(tmp_path / "branches", source).prepare(sooner)
    async with opened(planted, sooner.job, 2) as probe:
        fragments = await probe.sample(probe.actors)
    assert len(fragments) == 6
    for slot, fragment in enumerate(fragments):
        assert fragment.meta["resumed"] is True
        begins = plain(fragment)["observations"][0]
        assert np.array_equal(begins, ends[slot % 2]["state/observations"])
    for one, other in itertools.combinations(range(6), 2):
        assert not np.isin(*(plain(fragments[slot])["actions"] for slot in (one, other))).any()
        assert not np.isin(*(probe.states[slot]["state/generators"][:, :2] for slot in (one, other))).any()


def test_the_gain_per_actor_is_not_measured_with_a_falling_learning_rate(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    settings = {"hyperparameters": {"learningRateAnneal": True}}
    write_job(tmp_path, algorithm=settings).rename(run / "job.yaml")
    refused = nitro("detector", run, "--gain", "2")
    assert refused.returncode == 2
    assert "learningRateAnneal=false" in refused.stderr


def test_the_gain_per_actor_is_not_measured_for_off_policy_rounds(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    settings = {"name": "impact", "hyperparameters": {"learningRateAnneal": False}}
    write_job(tmp_path, algorithm=settings).rename(run / "job.yaml")
    refused = nitro("detector", run, "--gain", "2")
    assert refused.returncode == 2
    assert "is a run of impact, whose rounds end with half of their actors' fragments" in refused.stderr
    assert "give a run of ppo or rllib/ppo" in refused.stderr


def test_the_gain_per_actor_is_reported_beside_the_statistics(results: Path, tmp_path: Path) -> None:
    """Finished branches are not trained again: these gained 1 or 2 by more actors at once, 5 later."""
    run = results / "runs" / "two-state" / "nitro" / "seed-0"
    source = RunDir(run)
    possible = repeatable(source)
    rounds = [possible[0], possible[round((len(possible) - 1) / 2)], possible[-1]]
    planted = BranchDir(run / "detector", source)
    for branch in branches(resolve(load_job(source.job)), rounds=rounds, factor=2, seeds=2, ahead=1):
        gain = {"base": 0, "sooner": 1 + branch.seed, "later": 5}[branch.variant.split("-")[-1]]
        pretend(planted, branch, actors=[1], returns=[0], final=10.0 + gain)
    page = tmp_path / "page.md"
    page.write_text("<!-- detector: begin -->\n<!-- detector: end -->\n")
    command = ("detector", run, "--rounds", "3", "--repeats", "2", "--gain", "2", "--ahead", "1", "--json")
    done = nitro(*command, "--into", page)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rounds"] == rounds
    # Two seeds: the limits are 12.7 standard errors away, and each seed is half away from the mean.
    limits = {"low": pytest.approx(-4.853, abs=0.001), "high": pytest.approx(7.853, abs=0.001)}
    assert told["gain"]["sooner"] == {"mean": 1.5, **limits, "byRound": [1.5, 1.5, 1.5]}
    assert told["gain"]["later"]["mean"] == 5
    assert "foretellsGain" in told["statistics"]["convexity_ratio"]
    assert told["gain"]["boosted"] == 1
    every = {name: (one["gained"]["mean"], one["once"]) for name, one in told["gain"]["choices"].items()}
    assert every["oracle"] == (1.5, None)
    assert told["gain"]["choices"]["oracle"]["gained"]["low"] is None
    assert every["chance"] == (1.5, None)
    assert every["convexity_ratio"][1]["mean"] == 1.5
    assert "What boosting 1 of the 3 rounds gained, by who chooses them:" in page.read_text()
    assert "| oracle | - | +1.5 |" in page.read_text()
    assert "in further rounds instead: +5.0 [+5.0, +5.0]." in page.read_text()


def test_controls_are_trained_after_their_source(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        variants={"nitro": {}},
        permuted={"shuffled": "nitro"},
        replayed={"replay": "nitro"},
        seeds=[0],
        budget={"rounds": 8},
    )
    done = nitro("experiment", "run", spec, "--dir", tmp_path / "results", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    runs = tmp_path / "results" / "runs" / "two-state"
    own, control, replay = (
        [int(row["actors"]) for row in rows_of(runs / name / "seed-0")]
        for name in ("nitro", "shuffled", "replay")
    )
    window = 6
    for begin in range(0, 8, window):
        assert sorted(control[begin : begin + window]) == sorted(own[begin : begin + window])
    assert replay == own, "the mean of one run"
    assert "3 of 3 runs are finished" in (tmp_path / "results" / "report.md").read_text()


def test_a_control_follows_its_source_beyond_a_raised_budget(tmp_path: Path) -> None:
    """Its last checkpoint has the next round's actors as the shorter list gave them."""
    variant = {"spec.scaling.scaler": "hydrozoa", "spec.scaling.initialActors": 1}
    spec = write_spec(
        tmp_path,
        variants={"doubling": variant},
        replayed={"replay": "doubling"},
        seeds=[0],
        budget={"rounds": 10},
    )
    runs = tmp_path / "results" / "runs" / "two-state"
    for rounds in (10, 12):
        wanted = f"budget.rounds={rounds}"
        done = nitro("experiment", "run", spec, "--dir", tmp_path / "results", "--set", wanted)
        assert done.returncode == 0, done.stderr
        own, replay = (
            [int(row["actors"]) for row in rows_of(runs / name / "seed-0")] for name in ("doubling", "replay")
        )
        assert replay == own
    assert own == [1] * 10 + [2] * 2


def test_without_its_source_a_permuted_control_is_not_tried(tmp_path: Path) -> None:
    absent = {"spec.environment.entryPoint": "no_such_module:Environment"}
    spec = write_spec(
        tmp_path,
        variants={"absent": absent},
        permuted={"shuffled": "absent"},
        seeds=[0],
        budget={"rounds": 1},
    )
    failed = nitro("experiment", "run", spec, "--dir", tmp_path / "results", "--jobs", "2")
    assert failed.returncode == 1
    assert "not tried, because its source runs/two-state/absent/seed-0 has not ended" in failed.stderr
