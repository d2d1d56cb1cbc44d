"""How a round's improvement grows with its actors: the fit, and what follows from it for a price list."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiment_support import no_overview, preset_job, pretend, write_prices, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading import price_list
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.writing import experiment_report

ROUNDS = {1: 3.0, 2: 2.0, 4: 1.5}
"""1 + N / I for N = 2 and 1, 2 and 4 actors: the law `one step`."""


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", lambda *_, **_modelled: False)


def finished(directory: Path, rounds: Mapping[int, float]) -> tuple[ExperimentDir, Experiment]:
    """Runs that reach a return of 10 after 2, 4 or 6 times `rounds`, by number of actors and by seed."""
    variants = {
        f"fixed-{count}": {
            "spec.scaling.scaler": "fixed",
            "spec.scaling.initialActors": count,
            "spec.stop.rounds": 50,
        }
        for count in rounds
    }
    seeds = [0, 1, 2]
    spec = load(
        write_spec(
            directory,
            job=preset_job(),
            variants=variants,
            seeds=seeds,
            budget={"rounds": 3},
            target=10,
            against=["fixed-1"],
        )
    )
    folder = ExperimentDir(directory / "results")
    folder.open(spec)
    for run in plan(spec):
        count = int(run.variant.removeprefix("fixed-"))
        before = int(rounds[count] * 2 * (run.seed + 1))
        pretend(folder, run, actors=[count] * (before + 1), returns=[0] * before + [10])
    return folder, spec


def seconds(update: int) -> dict[str, Any]:
    """Those of a price list whose learner takes `update` seconds for any number of transitions."""
    learner = {"transitions": [96, 960], "update": [update, update], "detector": [5, 5]}
    return {
        "actorSeconds": {"invocation": 0.04, "step": 0.01},
        "seconds": [{"algorithm": "ppo", "preset": "tuned", **learner}],
    }


def priced(tmp_path: Path, *, update: int) -> str:
    """The report by a price list whose learner takes `update` seconds for any number of transitions."""
    folder, spec = finished(tmp_path, ROUNDS)
    prices = write_prices(tmp_path, **seconds(update))
    return experiment_report.write(folder, spec, [price_list.load(prices)])


def test_the_fit_finds_the_noise_of_rounds_that_follow_a_law(tmp_path: Path) -> None:
    told = experiment_report.write(*finished(tmp_path, ROUNDS))
    assert "### Gain by number of actors" in told
    assert "one step, N = 2.0 [2.0, 2.0]" in told
    # Two actors took 4, 8 and 12 rounds; their geometric mean is 7.27.
    assert "| 2 | 8.0 [-1.9, 17.9] | 7.3 |" in told
    assert "root mean square: one step 0.0 %, bounded movement 2." in told


def test_a_price_list_has_a_cheapest_number_by_the_law(tmp_path: Path) -> None:
    """A round costs 2 dollars and 1.10 for each actor: to the target 9.30, 8.40 and 9.60 times a factor."""
    told = priced(tmp_path, update=1)
    assert "A round costs $2.0000 and $1.1000 for each actor, so K is 1.8." in told
    assert ", 2 actors in every round are cheapest to the target" in told
    assert "Against 1, 2, 4 actors that saves 9.7 %, 0.0 %, 12.5 %." in told


def test_a_list_on_which_everything_is_free_has_no_cheapest_number(tmp_path: Path) -> None:
    folder, spec = finished(tmp_path, ROUNDS)
    names = ("learnerDollarsPerHour", "lambdaGBSecond", "lambdaRequest")
    free = write_prices(tmp_path, pricing=dict.fromkeys(names, 0), **seconds(update=1))
    told = experiment_report.write(folder, spec, [price_list.load(free)])
    assert "### Modelled cost: round" in told
    assert "nan" not in told
    assert "cheapest" not in told


def test_a_cheapest_number_beyond_those_that_were_run_is_told_so(tmp_path: Path) -> None:
    """A round costs 102 dollars and 1.10 for each actor, so more than 4 actors are worth it."""
    told = priced(tmp_path, update=101)
    assert "14 actors (beyond the 1 to 4 that were run) in every round are cheapest to the target." in told


def test_two_numbers_of_actors_show_no_shape(tmp_path: Path) -> None:
    told = experiment_report.write(*finished(tmp_path, {1: 3.0, 2: 2.0}))
    assert "Gain by number of actors" not in told


def test_runs_that_miss_the_target_show_no_shape(tmp_path: Path) -> None:
    folder, spec = finished(tmp_path, ROUNDS)
    missed = spec.model_copy(update={"target": 11.0})
    assert "Gain by number of actors" not in experiment_report.write(folder, missed)
