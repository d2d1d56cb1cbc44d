"""Actors by environment steps, a rate that falls over a budget in steps, and runs chosen by name."""

from pathlib import Path
from typing import Any

import pytest

from experiment_support import write_spec
from nitro_api import JobInvalid
from nitro_experiments.cli.experiment import chosen
from nitro_experiments.planning.by_steps import schedule_of
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import load
from nitro_learner.cli.exits import CommandError

FALLING = {"spec.algorithm.hyperparameters.learningRateAnneal": True}


def test_rounds_have_the_actors_of_their_first_step() -> None:
    assert schedule_of({0: 3}, 512) == [3]
    # Rounds begin at 0, 200, 400, 600, 1000, 1400 and 1800 steps.
    assert schedule_of({0: 2, 500: 4, 1500: 8}, 100) == [2, 2, 2, 4, 4, 4, 8]
    assert schedule_of({0: 2, 10: 4, 20: 8}, 100) == [2, 8], "an entry that no round begins in is passed over"


def test_a_variants_schedule_is_made_from_its_steps(tmp_path: Path) -> None:
    by_steps = {"grown": {0: 1, 192: 2, 500: 4}}
    experiment = load(write_spec(tmp_path, variants={"nitro": {}, "grown": {}}, bySteps=by_steps))
    scalings = {run.variant: run.job.spec.scaling for run in plan(experiment)}
    assert {name: scaling.scaler for name, scaling in scalings.items()} == {
        "nitro": "nitro",
        "grown": "schedule",
    }
    assert scalings["grown"].schedule == [1, 1, 2, 2, 4]
    # What is saved with the results says the same.
    (saved := tmp_path / "saved.yaml").write_text(experiment.to_yaml())
    assert load(saved) == experiment


@pytest.mark.parametrize(
    ("by_steps", "sentence"),
    [
        ({"grow": {0: 2}}, "bySteps.grow: {"),
        ({"fixed": {100: 2}}, "must say how many actors there are from step 0 on; add 0"),
        ({"fixed": {}}, "bySteps.fixed: {}; must say how many"),
        ({"fixed": {0: 0}}, 'bySteps.fixed: {"0": 0}; must have integers: steps, and after each the actors'),
        ({"fixed": {0: 4, -1: 8}}, "must have integers"),
        ({"fixed": {0: 4, "9": 8}}, "must have integers"),
        ({"fixed": {0: 4, 9: True}}, "must have integers"),
        ({"fixed": None}, "bySteps.fixed: null; must be a mapping"),
        ({"fixed": {0: 1, 96_097: 4}}, "has its last entry after round 1000, the most of a schedule"),
        ({"fixed": {0: 1, 100: 5}}, "must stay within minActors to maxActors"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, by_steps: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        plan(load(write_spec(tmp_path, bySteps=by_steps)))
    assert sentence in str(refused.value)


def test_a_schedule_may_have_as_many_rounds_as_there_are(tmp_path: Path) -> None:
    (run, *_) = plan(load(write_spec(tmp_path, bySteps={"fixed": {0: 1, 95_904: 4}})))
    assert run.job.spec.scaling.schedule == [1] * 999 + [4]


@pytest.mark.parametrize("budget", [{"envSteps": 96 * 30}, {"actorRounds": 30}])
def test_a_rate_falls_over_the_rounds_that_a_budget_in_steps_is_known_to_have(
    tmp_path: Path, budget: dict[str, int]
) -> None:
    variants = {"fixed": {"spec.scaling.scaler": "fixed"} | FALLING, "grown": FALLING, "constant": {}}
    by_steps = {"grown": {0: 1, 192: 4}}
    runs = plan(load(write_spec(tmp_path, variants=variants, budget=budget, bySteps=by_steps)))
    # 2 actors in each of 15 rounds; 1 in the first two, and then 4.
    rounds = {run.variant: run.job.spec.stop.rounds for run in runs}
    assert rounds == {"fixed": 15, "grown": 9, "constant": 1_000_000}
    assert all(run.job.spec.stop.to_dict() | budget == run.job.spec.stop.to_dict() for run in runs)


def test_a_rate_cannot_fall_over_rounds_that_nobody_knows(tmp_path: Path) -> None:
    unknown: tuple[dict[str, Any], ...] = (
        {"variants": {"nitro": FALLING}},
        {"budget": {"dollars": 1}, "variants": {"one": FALLING}},
    )
    for changes in unknown:
        with pytest.raises(JobInvalid, match="with scaler fixed or schedule also in envSteps or actorRounds"):
            plan(load(write_spec(tmp_path, **changes)))


def names(runs: list[PlannedRun]) -> list[str]:
    return [run.label.removeprefix("runs/two-state/") for run in runs]


def test_runs_arechosen_by_patterns_in_their_order(tmp_path: Path) -> None:
    runs = plan(load(write_spec(tmp_path, permuted={"shuffled": "nitro"})))
    assert chosen(runs, []) == runs
    patterns = ["*/nitro/seed-1", "two-state/fixed/*", "*/seed-1"]
    assert names(chosen(runs, patterns)) == [
        "nitro/seed-1", "fixed/seed-0", "fixed/seed-1", "shuffled/seed-1",
    ]  # fmt: skip
    assert names(chosen(runs, ["*/shuffled/seed-0"])) == ["nitro/seed-0", "shuffled/seed-0"], (
        "its source, too"
    )
    with pytest.raises(
        CommandError, match="matches no run's ENVIRONMENT/VARIANT/seed-SEED; did you mean two"
    ):
        chosen(runs, ["two-state/nitr/seed-0"])
