"""Searches: the section of the file, what is proposed, when a trial is pruned, and the report."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from optuna.distributions import FloatDistribution

from experiment_support import pretend, write_spec
from nitro_api import JobInvalid
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.search import comparison, scores, trials
from nitro_experiments.search.searcher import Searcher
from nitro_experiments.search.study import SearchStudy
from nitro_learner.run.rundir import OtherJob, RunDirError

RATE = "spec.algorithm.hyperparameters.learningRate"
EPOCHS = "spec.algorithm.hyperparameters.epochs"
SIZES = "spec.network.hiddenSizes"
SPACE: dict[str, Any] = {
    RATE: {"low": 1e-5, "high": 1e-2, "log": True},
    EPOCHS: {"low": 1, "high": 9, "step": 2},
    SIZES: {"choices": [[8], [16, 16]]},
}


def file(directory: Path, space: dict[str, Any] = SPACE, **changes: Any) -> Path:
    search = {"trials": 8, "seeds": [7], "space": space, **changes.pop("search", {})}
    path = write_spec(directory, search=search, **changes)
    path.write_text(
        yaml.safe_dump({k: v for k, v in yaml.safe_load(path.read_text()).items() if k != "variants"})
    )
    return path


def searched(directory: Path, **changes: Any) -> Experiment:
    experiment = load(file(directory, **changes))
    trials.check(experiment)
    return experiment


def study_of(directory: Path, experiment: Experiment) -> SearchStudy:
    assert experiment.search is not None
    return SearchStudy(directory / "search.db", experiment.search, {"a": 1})


def test_all_mistakes_are_reported_at_once_with_their_field(tmp_path: Path) -> None:
    space = {
        RATE: {"low": 0, "high": 1e-2, "log": True},
        EPOCHS: {"low": 9, "high": 3},
        "spec.scaling.window": {"low": 1.5, "high": 4},
        "spec.scaling.decay": {"low": 0.1},
        SIZES: {"choices": [[8], [8]], "low": 1},
        "metadata.name": {"choices": ["a", "b"]},
    }
    with pytest.raises(JobInvalid) as refused:
        load(file(tmp_path, space, seeds=[7, 8], against=["x"], environments=["a", "b"]))
    told = str(refused.value)
    for sentence in (
        f"search.space.{RATE}.low: 0; must be above 0 where log is true; raise it or remove log",
        f"search.space.{EPOCHS}.low: 9; must be below high, which is 3; correct one of them",
        "search.space.spec.scaling.window.low: 1.5; must be an integer",
        "search.space.spec.scaling.decay: ",
        "must have both low and high, or choices; add what is missing",
        f"search.space.{SIZES}.choices: [[8], [8]]; holds a value twice; remove one",
        "has choices and a range; remove one of them",
        "search.space.metadata.name: must be a field of the job below spec",
        "seeds: [7, 8]; holds 7, also in search.seeds",
        "against: cannot stand beside search",
        'environments: ["a", "b"]; has more than one entry, and a search is for one environment',
    ):
        assert sentence in told


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trials": 0}, "search.trials: 0; must be an integer from 1 to 10000; raise it"),
        ({"space": {}}, "search.space: {}; must be"),
        ({"space": {RATE: {"lwo": 1}}}, "lwo: 1; is not a field of"),
        ({"space": {RATE: {"low": "a", "high": 1}}}, 'low: "a"; must be a number'),
    ],
)
def test_a_wrong_field_of_the_search_is_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        load(file(tmp_path, search=changes))
    assert sentence in str(refused.value)


def test_each_end_and_each_choice_is_tried_in_the_job(tmp_path: Path) -> None:
    space = {
        "spec.algorithm.hyperparameters.learningRat": {"low": 1e-5, "high": 1e-3},
        "spec.scaling.decay": {"low": 0.5, "high": 3},
        EPOCHS: {"choices": [1, "many"]},
        "spec.seed": {"low": 1, "high": 2},
    }
    with pytest.raises(JobInvalid) as refused:
        searched(tmp_path, space=space)
    told = str(refused.value)
    unknown = "search.space.spec.algorithm.hyperparameters.learningRat: 1e-05; is not a field of"
    assert unknown in told
    assert "did you mean learningRate?" in told
    assert "search.space.spec.scaling.decay: 3; must be a number" in told
    assert f'search.space.{EPOCHS}: "many"; must be an integer' in told
    assert "search.space.spec.seed: 1; is given by seeds; remove it here" in told


def test_without_optuna_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        JobInvalid, match=r"needs the package optuna: in a checkout run pip install .*,search\]'"
    ):
        load(file(tmp_path))


def test_a_search_needs_no_variants_and_its_trials_are_runs_of_the_job(tmp_path: Path) -> None:
    experiment = searched(tmp_path, search={"seeds": [9, 7]})
    assert plan(experiment) == []
    first, run = trials.trial_runs(experiment, 12, {RATE: 0.002, SIZES: [16, 16]})
    assert [str(one.folder) for one in (first, run)] == ["trials/0012/seed-9", "trials/0012/seed-7"]
    assert (run.job.spec.seed, run.job.spec.network.hidden_sizes) == (7, [16, 16])
    assert run.job.to_dict()["spec"]["algorithm"]["hyperparameters"]["learningRate"] == 0.002
    assert run.job.spec.stop.actor_rounds == 8
    saved = tmp_path / "saved.yaml"
    saved.write_text(experiment.to_yaml())
    assert load(saved) == experiment


def test_the_jobs_own_settings_are_the_first_trial_where_the_space_holds_them(tmp_path: Path) -> None:
    own = trials.own_settings(searched(tmp_path, space={RATE: SPACE[RATE], SIZES: SPACE[SIZES]}))
    assert own == {RATE: 0.0005, SIZES: [8]}
    assert trials.own_settings(searched(tmp_path)) is None, "two epochs are not among 1, 3, 5, 7, 9"


def score(settings: Any) -> float:
    """A function with a single best setting."""
    return -abs(np.log10(settings[RATE]) + 3) - abs(settings[EPOCHS] - 5) / 4 - (settings[SIZES] == [8])


def test_proposals_do_not_depend_on_interruptions(tmp_path: Path) -> None:
    def search(directory: Path, sittings: int) -> list[dict[str, Any]]:
        directory.mkdir()
        experiment = searched(directory)
        for _ in range(sittings):
            study = study_of(directory, experiment)
            for _ in range(12 // sittings):
                trial = study.ask()
                study.end(trial, "complete", score=score(trial.settings), spent={"rounds": 1})
        return [dict(trial.settings) for trial in study.trials()]

    whole = search(tmp_path / "whole", 1)
    assert search(tmp_path / "parts", 4) == whole
    assert len({str(settings) for settings in whole}) == 12, "no proposal comes twice"
    assert all(1e-5 <= one[RATE] <= 1e-2 and one[EPOCHS] in range(1, 10, 2) for one in whole)
    assert {str(one[SIZES]) for one in whole} == {"[8]", "[16, 16]"}


def test_a_trial_that_was_interrupted_while_it_was_drawn_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna marks a trial as running before it stores what the trial is given."""
    experiment = searched(tmp_path, space={RATE: SPACE[RATE]})
    own = trials.own_settings(experiment)
    assert own is not None

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    def proposals(directory: Path, *, interrupted: bool) -> list[Any]:
        directory.mkdir()
        if interrupted:
            study = study_of(directory, experiment)
            study.begin_with(own)
            with monkeypatch.context() as patch:
                patch.setattr(FloatDistribution, "to_internal_repr", killed)
                with pytest.raises(KeyboardInterrupt):
                    study.ask()
        study = study_of(directory, experiment)
        study.begin_with(own)
        return [study.ask().settings for _ in range(3)]

    undisturbed = proposals(tmp_path / "undisturbed", interrupted=False)
    assert undisturbed[0] == own
    assert proposals(tmp_path / "interrupted", interrupted=True) == undisturbed


def test_an_interrupted_trial_is_still_running_when_the_study_is_opened_again(tmp_path: Path) -> None:
    experiment = searched(tmp_path)
    first = study_of(tmp_path, experiment).ask()
    study = study_of(tmp_path, experiment)
    (again,) = study.trials()
    assert (again.number, again.state, again.settings) == (0, "running", first.settings)
    assert study.report(again, 1, 3.0) is False
    study.end(again, "complete", score=4.0, spent={})
    best = study_of(tmp_path, experiment).best()
    assert best is not None
    assert best.score == 4.0


def test_a_trial_is_pruned_below_the_median_at_equal_spending(tmp_path: Path) -> None:
    study = study_of(tmp_path, searched(tmp_path))
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        trial = study.ask()
        for step in (2, 3, 4):
            assert not study.report(trial, step, value * step), "too few complete trials"
        study.end(trial, "complete", score=value, spent={})
    trial = study.ask()
    assert not study.report(trial, 2, 0.0), "too early in the budget"
    assert not study.report(trial, 3, 9.0), "equal to the median of 3, 6, 9, 12, 15"
    assert study.report(trial, 4, 11.9), "below the median of 4, 8, 12, 16, 20"
    assert study.report(trial, 4, 11.9), "an interrupted search gets the same answer again"
    study.end(trial, "pruned", score=None, spent={})
    assert study.trials()[-1].reached == (0.4, 11.9)


async def test_a_trials_score_is_the_mean_over_its_seeds(tmp_path: Path) -> None:
    wanted = {"trials": 2, "seeds": [9, 7]}
    experiment = searched(tmp_path, space={RATE: SPACE[RATE]}, search=wanted, budget={"rounds": 2})
    folder = ExperimentDir(tmp_path / "results")
    folder.path.mkdir()
    folder.open(experiment)
    study = comparison.open_study(folder, experiment)
    searcher = Searcher(folder, experiment, study, LocalRuns(folder), jobs=1)
    drawn = study_of(tmp_path, experiment)
    drawn.begin_with(trials.own_settings(experiment) or {})
    for number, returns in enumerate([(10.0, 40.0), (20.0, 22.0)]):
        asked = drawn.ask()
        for run, value in zip(trials.trial_runs(experiment, number, asked.settings), returns, strict=True):
            pretend(folder, run, actors=[1, 1], returns=[0.0, value])
    await searcher.search()
    found = study.trials()
    assert [trial.score for trial in found] == [25.0, 21.0]
    assert [trial.spent for trial in found] == [{"rounds": 4.0, "dollars": 0.04, "seconds": 144.0}] * 2


def test_pruning_can_be_switched_off(tmp_path: Path) -> None:
    study = study_of(tmp_path, searched(tmp_path, search={"prune": False}))
    for value in (5.0, 5.0, 5.0, 5.0, 5.0):
        trial = study.ask()
        study.report(trial, 5, value)
        study.end(trial, "complete", score=value, spent={})
    assert not study.report(study.ask(), 5, 0.0)


def test_a_search_goes_on_with_the_same_settings_only(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path)
    comparison.open_study(folder, searched(tmp_path))
    comparison.open_study(folder, searched(tmp_path, search={"trials": 99}, seeds=[0, 1, 2]))
    changed = searched(tmp_path, budget={"actorRounds": 9}, set={"spec.scaling.window": 9})
    with pytest.raises(OtherJob, match=r"(?s)budget: .*spec.scaling.window: 6 there, 9 now"):
        comparison.open_study(folder, changed)


def test_a_damaged_study_is_named(tmp_path: Path) -> None:
    (tmp_path / "search.db").write_text("no database" * 100)
    with pytest.raises(RunDirError, match="holds no search that can be read"):
        comparison.open_study(ExperimentDir(tmp_path), searched(tmp_path))


def test_scores_are_read_at_tenths_of_the_budget_and_only_when_they_are_settled(tmp_path: Path) -> None:
    experiment = searched(tmp_path, budget={"dollars": 10.0})
    names = ("round", "cost_total", "env_steps", "reward_mean")
    rows = [(1, 1.5, 1, np.nan), (2, 3.0, 2, 10.0), (3, 4.5, 3, 40.0)]
    columns = {name: np.array([row[index] for row in rows]) for index, name in enumerate(names)}
    # Of 10 at $1.50 and 40 at $3.00, before which the rounds sampled; the third round's dollars are spent,
    # but the return that they bought is not known.
    assert dict(scores.steps_reached(experiment, columns)) == {2: 20.0, 3: 40.0}


def test_the_report_has_the_best_settings_and_compares_them_on_fresh_seeds(tmp_path: Path) -> None:
    space = {RATE: SPACE[RATE], SIZES: SPACE[SIZES]}
    experiment = searched(tmp_path, space=space)
    folder = ExperimentDir(tmp_path / "results")
    folder.path.mkdir()
    folder.open(experiment)
    study = comparison.open_study(folder, experiment)
    own = trials.own_settings(experiment)
    assert own is not None
    study.begin_with(own)
    for index, (state, value) in enumerate(
        [*(("complete", float(index)) for index in range(6)), ("pruned", None), ("failed", None)]
    ):
        trial = study.ask()
        assert (trial.settings == own) == (index == 0)
        study.report(trial, 4, float(index))
        message = "not a valid job: a reason\nof two lines" if state == "failed" else ""
        spent = {"rounds": 4.0, "dollars": 0.25, "seconds": 3600.0}
        study.end(trial, state, score=value, spent=spent, message=message)
    alone = comparison.report(folder, experiment)
    assert "8 of 8 trials have ended (6 complete, 1 pruned, 1 failed)" in alone
    assert "They took 8.00 core-hours and $2.0000." in alone
    assert "at random until 5 trials have ended (complete or pruned)." in alone
    assert "### Best: trial 5" in alone
    assert "Its score is 5.0; the job's own settings, trial 0, have 0.0." in alone
    assert "pruned at 40% with 6.0" in alone
    assert "failed: not a valid job: a reason |" in alone
    block = alone.partition("```yaml\n")[2].partition("```")[0]
    best = study.best()
    assert best is not None
    assert yaml.safe_load(block) == trials.nested(best.settings)
    assert (folder.path / "figures" / "search.png").read_bytes()[:4] == b"\x89PNG"
    with folder.trials.open() as lines:
        assert [row["state"] for row in csv.DictReader(lines)][-2:] == ["pruned", "failed"]

    compared = comparison.compared(experiment, study)
    assert compared is not None
    for run in plan(compared):
        gain = 2.0 if run.variant == "trial-5" else 0.0
        pretend(folder, run, actors=[8], returns=[10.0 + run.seed + gain])
    text = comparison.report(folder, experiment)
    assert "4 of 4 runs are finished" in text
    assert "| trial-5 - default | +2.0 [+2.0, +2.0]" in text


def test_the_jobs_own_settings_are_compared_with_nothing(tmp_path: Path) -> None:
    experiment = searched(tmp_path, space={RATE: SPACE[RATE]})
    folder = ExperimentDir(tmp_path)
    study = comparison.open_study(folder, experiment)
    own = trials.own_settings(experiment)
    assert own is not None
    study.begin_with(own)
    study.end(study.ask(), "complete", score=1.0, spent={})
    assert comparison.compared(experiment, study) is None
    told = comparison.report(folder, experiment)
    assert "no trial was better, so there is nothing to compare" in told
    assert "runs are finished" not in told
    assert "left out later" not in told
