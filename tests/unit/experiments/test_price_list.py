"""Price lists: what they may hold, and what finished runs would have cost by them."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_support import no_overview, preset_job, pretend, write_prices, write_spec
from nitro_api import JobInvalid, load_job, resolve
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading import price_list
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.writing import experiment_report
from nitro_learner.run.rundir import RunDirError

LISTS = sorted((Path(__file__).parents[3] / "experiments/prices").glob("*.yaml"))
ROUND = {"seconds_actor": 2.0, "seconds_update": 7.0, "seconds_detect": 1.0, "convexity_ratio": 1.0}
"""What every round of the runs below had measured."""


def finished(directory: Path) -> tuple[ExperimentDir, Experiment]:
    """Two variants over two seeds, 8 actor-rounds in two rounds, with ledgers."""
    spec = load(write_spec(directory, job=preset_job()))
    folder = ExperimentDir(directory / "results")
    folder.open(spec)
    for run in plan(spec):
        actors = [4, 4] if run.variant == "fixed" else [2, 6]
        pretend(folder, run, actors=actors, returns=[0, 1])
        place = folder.run(run)
        with place.metrics.open() as file:
            rows = [row | ROUND for row in csv.DictReader(file)]
        with place.metrics.open("w") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        entries = [
            {"round": k, "details": {"invocations": count, "billedSeconds": 2.0 * count}}
            for k, count in enumerate(actors, 1)
        ]
        place.ledger.write_text("".join(json.dumps(entry) + "\n" for entry in [*entries, entries[-1]]))
    return folder, spec


def test_finished_runs_are_priced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes 2 seconds of sampling, whatever its actors. 8 invocations cost 2.10 dollars each."""
    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", lambda *_, **_modelled: False)
    folder, spec = finished(tmp_path)
    assert "odelled" not in experiment_report.write(folder, spec)
    own = experiment_report.write(folder, spec, [price_list.load(write_prices(tmp_path))])
    assert "### Modelled cost: round" in own
    assert "every run is priced as if it had these machines" in own
    # Twice 2 + 7 + 1 seconds, as measured, and 16.80 for invocations.
    assert "| fixed | $36.8000 | 20.0 | $0.0800 |" in own
    assert "| nitro | $36.8000 | 20.0 | $0.0800 |" in own
    seconds = {"algorithm": "ppo", "preset": "tuned", "transitions": [192, 384]}
    table = [{**seconds, "update": [1.0, 3.0], "detector": [0.5, 1.5]}]
    tabled = experiment_report.write(folder, spec, [price_list.load(write_prices(tmp_path, seconds=table))])
    # 384 transitions take 3 s, 192 and 576 take 1 s and 5 s; the detector has 96, and takes nothing.
    assert "| fixed | $26.8000 | 10.0 | $0.0800 |" in tabled
    assert "| nitro | $26.8000 | 10.0 | $0.0800 |" in tabled
    assert "| nitro - fixed | +0.0 % [+0.0, +0.0] | too few seeds |" in tabled
    assert "from the list's table for ppo `tuned`" in tabled


def test_a_busy_machines_clock_is_left_out_of_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", lambda *_, **_modelled: False)
    folder, spec = finished(tmp_path)
    spec = spec.model_copy(update={"questions": {"Is it?": ["nitro", "fixed"]}, "target": 1.0})
    prices = [price_list.load(write_prices(tmp_path))]
    asked = ("| Is it? | nitro - fixed | too few seeds: ", "| fixed | $36.8000 | 20.0 |")
    quiet = experiment_report.write(folder, spec, prices)
    busy = experiment_report.write(folder, spec, prices, busy=True)
    columns = [
        [len(line.split("|")) for line in text.splitlines() if line.startswith(asked)]
        for text in (quiet, busy)
    ]
    assert columns == [[7, 6], [5, 5]], "two answers and one measured cost less"
    assert "$0.0800" in quiet
    assert "$0.0800" not in busy
    assert "| variant | at the budget | IQM | worst to best seed | over training | rounds | steps |\n" in busy
    assert "The machine did other work at the same time" in busy


def test_variants_are_compared_at_an_equal_modelled_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round costs 2 dollars and 1.10 for each actor. `few` goes on beyond the budget of two rounds. The
    last returns of the others are of policies that had cost 4.20, so all are read at 4.20."""
    drawn: list[tuple[str, bool]] = []

    def draw(
        _results: object, _experiment: object, _metric: str, path: Path, *, modelled: bool = False
    ) -> bool:
        drawn.append((path.name, modelled))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return modelled

    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", draw)
    few = {"spec.scaling.scaler": "fixed", "spec.scaling.initialActors": 1, "spec.stop.rounds": 4}
    variants = {"fixed": {"spec.scaling.scaler": "fixed"}, "few": few, "nitro": {}}
    spec = load(
        write_spec(
            tmp_path,
            job=preset_job(),
            variants=variants,
            budget={"rounds": 2},
            target=10,
            against=["fixed"],
        )
    )
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    returns: dict[str, list[float]] = {"fixed": [0, 10], "few": [0, 10, 20, 30], "nitro": [0, 20]}
    actors = {"fixed": [2, 2], "few": [1, 1, 1, 1], "nitro": [2, 4]}
    for run in plan(spec):
        pretend(folder, run, actors=actors[run.variant], returns=returns[run.variant])
    learner = {"transitions": [96, 960], "update": [1, 1], "detector": [5, 5]}
    prices = write_prices(
        tmp_path,
        actorSeconds={"invocation": 0.04, "step": 0.01},
        seconds=[{"algorithm": "ppo", "preset": "tuned", **learner}],
    )
    told = experiment_report.write(folder, spec, [price_list.load(prices)])
    assert "| few | $6.2000 | 4.0 | $0.0200 |" in told, "the budget's two rounds"
    assert "An actor takes 0.04 s and 0.01 s a step" in told
    assert "spent $4.2000, the most" in told
    assert "| fixed | 10.0 [10.0, 10.0] | 1.0 | $4.2000 (2 of 2) |" in told
    assert "| few | 13.5 [13.5, 13.5] | 1.4 | $3.1000 (2 of 2) |" in told
    assert "| nitro | 20.0 [20.0, 20.0] | 1.0 | $2.1000 (2 of 2) |" in told
    assert "The best fixed number in hindsight is that of few, by the cost to reach 10." in told
    few_first = "| few - fixed | too few seeds: +3.5 [+3.5, +3.5] | too few seeds: -26.2 % [-26.2, -26.2] |"
    assert few_first in told
    best = "| nitro - few (best) | too few seeds: +6.5 [+6.5, +6.5] | too few seeds: -32.3 % [-32.3, -32.3] |"
    assert best in told
    assert ("two-state-reward_mean-round.png", True) in drawn
    aimless = spec.model_copy(update={"target": None})
    told = experiment_report.write(folder, aimless, [price_list.load(prices)])
    assert "The best fixed number in hindsight is that of few, by the return." in told
    assert "| nitro - few (best) | too few seeds: +6.5 [+6.5, +6.5] |" in told
    asked_already = aimless.model_copy(update={"against": ["nitro"]})
    told = experiment_report.write(folder, asked_already, [price_list.load(prices)])
    assert "| few - nitro | " in told
    assert "(best)" not in told, "no difference is tested in both directions"


def test_a_run_without_its_ledger_is_not_priced(tmp_path: Path) -> None:
    folder, spec = finished(tmp_path)
    folder.run(plan(spec)[0]).ledger.write_text("")
    with pytest.raises(RunDirError, match="cannot be priced again"):
        experiment_report.write(folder, spec, [price_list.load(write_prices(tmp_path))])


def test_seconds_lie_on_a_line_between_and_beyond_the_sizes_of_the_table() -> None:
    one = price_list.LearnerSeconds(
        algorithm="ppo", preset="paper", transitions=[10, 20, 40], update=[1.0, 2.0, 6.0], detector=[0.0] * 3
    )
    sizes = np.array([5.0, 10.0, 15.0, 30.0, 50.0, -20.0])
    assert one.of(one.update, sizes).tolist() == [0.5, 1.0, 1.5, 4.0, 8.0, 0.0]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_the_lists_of_the_repository_are_valid(path: Path) -> None:
    assert price_list.load(path).name == path.stem


def test_mistakes_of_a_list_are_named(tmp_path: Path) -> None:
    seconds = {"algorithm": "ppo", "preset": "paper", "transitions": [20, 10], "update": [1.0, 2.0]}
    short = write_prices(tmp_path, seconds=[{**seconds, "detector": [1.0, 2.0, 3.0]}])
    with pytest.raises(JobInvalid, match=r"transitions.*must ascend") as wrong:
        price_list.load(short)
    assert "must have one number for each of the 2 transitions" in str(wrong.value)
    with pytest.raises(JobInvalid, match=r"pricing\.learnerDollars"):
        price_list.load(write_prices(tmp_path, pricing={"learnerDollars": 1}))


@pytest.mark.parametrize(
    ("changes", "has_entry"),
    [
        ({}, True),
        ({"environment": {"id": "Walker2d-v5"}}, True),
        ({"algorithm": {"preset": "paper", "hyperparameters": {"learningRate": 1e-4}}}, True),
        ({"algorithm": {"preset": "paper", "hyperparameters": {"epochs": 3}}}, False),
        ({"algorithm": {"preset": "paper", "hyperparameters": {"minibatchSize": 64}}}, False),
        ({"network": {"hiddenSizes": [32]}}, False),
        ({"network": {"recurrent": {"hiddenSize": 128}}}, False),
        ({"environment": {"id": "ALE/SpaceInvaders-v5"}}, False),
        ({"algorithm": {"preset": "paper", "name": "impact"}}, False),
    ],
)
def test_a_job_whose_updates_are_others_than_those_measured_keeps_its_own_seconds(
    changes: dict[str, Any], has_entry: bool
) -> None:
    """Hopper with the preset paper was measured."""
    spec = {"environment": {"id": "Hopper-v5"}, "algorithm": {"preset": "paper"}, **changes}
    job = {"apiVersion": "nitro.dev/v1alpha1", "kind": "NitroTrainingJob", "metadata": {"name": "a"}}
    found = price_list.load(LISTS[0]).seconds_of(resolve(load_job({**job, "spec": spec})))
    assert (found is not None) == has_entry
