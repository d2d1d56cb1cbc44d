"""Curves at the budget, and a report of runs whose numbers are known."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

from experiment_support import no_overview, preset_job, pretend, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading.curves import Curve, read, resumed_late
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.writing import experiment_report
from nitro_experiments.writing.question_answers import dearer
from nitro_learner.run.rundir import RunDirError


def test_a_curve_is_interpolated_between_its_points() -> None:
    curve = Curve(np.array([2.0, 4.0, 10.0]), np.array([0.0, 10.0, 40.0]))
    assert curve.at(3) == 5
    assert curve.at(10) == 40
    assert math.isnan(curve.at(10.1))
    assert math.isnan(curve.at(1))
    # Trapezes: 2 * 5 + 3 * 17.5 over a width of 5; 1 * 7.5 instead of the first from 3 on.
    assert curve.mean(2, 7) == pytest.approx((10 + 52.5) / 5)
    assert curve.mean(3, 7) == pytest.approx((7.5 + 52.5) / 4)
    assert all(math.isnan(curve.mean(*ends)) for ends in ((1, 7), (2, 11), (7, 7)))
    assert curve.reaches(5, 10) == 3
    assert curve.reaches(-1, 10) == 2
    assert math.isnan(curve.reaches(20, 5))
    assert math.isnan(curve.reaches(50, 10))


def test_a_step_curve_takes_the_value_of_the_next_point() -> None:
    curve = Curve(np.array([2.0, 6.0, 7.0]), np.array([2.0, 4.0, 1.0]), steps=True)
    assert curve.values(np.array([0.0, 2.0, 2.1, 6.0, 6.5, 7.0])).tolist() == [2, 2, 4, 4, 1, 1]


def test_a_slot_that_was_idle_resumes_an_older_state() -> None:
    """Slots 3 and 4 are new in round 2, idle in round 3 and back in round 4; slot 2 is back in round 6."""
    assert resumed_late(np.array([2.0, 4.0, 2.0, 4.0, 1.0, 2.0])).tolist() == [0, 0, 0, 2, 0, 1]


def test_no_slot_resumes_an_older_state_where_idle_slots_are_reset(tmp_path: Path) -> None:
    run, *_ = plan(load(write_spec(tmp_path, set={"spec.environment.resetIdleSlots": True})))
    folder = ExperimentDir(tmp_path / "results")
    pretend(folder, run, actors=[4, 1, 4], returns=[0, 0, 0])
    assert read(folder.run(run), run.job).columns["resumed_late"].tolist() == [0, 0, 0]


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures out, which take most of a report's time, where a test reads numbers only."""
    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", lambda *_: False)


@pytest.fixture
def experiment(tmp_path: Path) -> tuple[ExperimentDir, Experiment]:
    """fixed reaches 8 actor-rounds exactly, nitro overshoots to 10; seed 2 is not finished."""
    spec = load(write_spec(tmp_path, seeds=[0, 1, 2], target=15.0, against=["fixed"]))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        if run.variant == "fixed":
            pretend(
                folder, run, actors=[2, 2, 2, 2], returns=[0, 10, 10, 10 + run.seed], finished=run.seed < 2
            )
        elif run.seed < 2:
            pretend(folder, run, actors=[2, 4, 4], returns=[0, 10, 30 + 2 * run.seed])
    return folder, spec


@pytest.mark.usefixtures("no_pictures")
def test_the_report_compares_at_exactly_the_budget(experiment: tuple[ExperimentDir, Experiment]) -> None:
    folder, spec = experiment
    text = experiment_report.write(folder, spec)
    assert "Every run has the same budget, 8 actor-rounds" in text
    assert "2 paired seeds: 0, 1." in text
    assert "4 of 6 runs are finished" in text
    # fixed: 10 and 11; nitro: 30 and 32, in the round that began at 6 actor-rounds. Each of its actor-rounds
    # has 96 steps and costs one cent. The limits are 12.7 standard errors away, one degree of freedom.
    assert "| fixed | 10.5 [4.1, 16.9] | 10.5 | 10.0 to 11.0 | " in text
    assert "| nitro | 31.0 [18.3, 43.7] | 31.0 | 30.0 to 32.0 | " in text
    nitro = next(line for line in text.splitlines() if line.startswith("| nitro |")).split(" | ")
    assert nitro[5:8] == ["2.5", "768", "$0.0800"]
    # 15 is crossed a quarter of the way from 2 actor-rounds to 6 by seed 0 (3 cents), earlier by seed 1.
    assert nitro[8] == "$0.0295 (2 of 2) |"
    assert "0 of 2 |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| nitro - fixed |")]
    assert "+20.5 [+14.1, +26.9]" in line
    assert line.endswith("| 1.00 | too few seeds |")
    assert "These are too few seeds for a verdict, which needs 10." in text
    assert "ot planned" not in text
    assert "odelled" not in text, "of one agent there is no such cost"


@pytest.mark.usefixtures("no_pictures")
def test_a_verdict_needs_an_interval_that_excludes_zero_and_enough_seeds(tmp_path: Path) -> None:
    variants: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c": {}}
    spec = load(write_spec(tmp_path, seeds=list(range(10)), variants=variants))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        gain = {"a": 0.0, "b": 10.0 + run.seed, "c": (-1) ** run.seed}[run.variant]
        pretend(folder, run, actors=[4, 4], returns=[0, 50 + gain])
    text = experiment_report.write(folder, spec)
    assert "older than one round" not in text
    verdicts = [line.split(" | ") for line in text.splitlines() if line.startswith(("| b - a", "| c - a"))]
    assert [line[-1] for line in verdicts] == ["better |", "no difference shown |"]
    assert verdicts[0][1] == "+14.5 [+12.3, +16.7]"


@pytest.mark.usefixtures("no_pictures")
def test_verdicts_on_the_questions_of_a_file_are_corrected_together(tmp_path: Path) -> None:
    """b's difference has p = 0.03: alone it is a verdict, beside a second question it is not."""
    variants: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c": {}}
    asked = {"Is b?": ["b", "a"], "Is c?": ["c", "a"]}
    for questions, expected in (({"Is b?": ["b", "a"]}, "better"), (asked, "no difference shown")):
        spec = load(write_spec(tmp_path, seeds=list(range(10)), variants=variants, questions=questions))
        folder = ExperimentDir(tmp_path / f"results-{len(questions)}")
        folder.open(spec)
        for run in plan(spec):
            sign = (-1) ** run.seed
            gain = {"a": 0.0, "b": 1.0 + 1.27 * sign, "c": 1.0 * sign}[run.variant]
            pretend(folder, run, actors=[4, 4], returns=[0, 50 + gain], cents=0)
        answer = next(
            line for line in experiment_report.write(folder, spec).splitlines() if line.startswith("| Is b?")
        )
        assert f"| {expected}: +1.0 [+0.0, +2.0] |" in answer


@pytest.mark.usefixtures("no_pictures")
def test_the_report_says_which_seeds_were_added_after_runs_had_ended(tmp_path: Path) -> None:
    folder = ExperimentDir(tmp_path / "results")
    folder.open(load(write_spec(tmp_path, seeds=[0])))
    folder.open(load(write_spec(tmp_path, seeds=[0, 1])))  # before anything has ended: still the plan
    spec = load(write_spec(tmp_path, seeds=[0, 1]))
    for run in plan(spec):
        actors = [4, 1, 4] if run.variant == "nitro" else [4, 4]
        pretend(folder, run, actors=actors, returns=[0, 1, 2][: len(actors)])
    folder.open(spec)
    text = experiment_report.write(folder, spec)
    assert "lanned" not in text
    assert "older than one round, because the rounds between had fewer actors: fixed 0%, nitro 33%." in text
    more = load(write_spec(tmp_path, seeds=[1, 2, 3]))
    folder.open(more)
    text = experiment_report.write(folder, more)
    assert "Not planned: the seeds 2, 3 were added when 4 runs had ended." in text
    assert "Planned, but left out later: the seeds 0." in text


@pytest.mark.usefixtures("no_pictures")
def test_updates_of_several_agents_have_a_modelled_cost_beside_the_measured_one(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, seeds=[0, 1]))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        functions = 300 if run.variant == "fixed" else 200 + 20 * run.seed
        model = {"functions": functions, "dollars": functions / 1000, "withoutSharing": 0.3}
        summary = {"modelledLearnerFunctions": model, "cost": {"learner": 0.5, "actors": 0.25 + run.seed}}
        pretend(folder, run, actors=[4, 4], returns=[0, 50], ended=summary)
    text = experiment_report.write(folder, spec)
    assert "| fixed | 300.0 [300.0, 300.0] | $0.3000 | $0.3000 | $0.5000 | $0.7500 |" in text
    assert "| nitro | 210.0 [82.9, 337.1] | $0.2100 | $0.3000 | $0.5000 | $0.7500 |" in text
    assert "Modelled: nothing ran as a function." in text


@pytest.mark.usefixtures("no_pictures")
def test_each_class_of_agents_has_its_own_return(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, seeds=[0, 1]))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        classes = {"adversary": -20.0 - run.seed, "agent": 7.0} if run.variant == "fixed" else {"agent": 8.0}
        pretend(folder, run, actors=[4, 4], returns=[0, 50], ended={"evaluation": {"classes": classes}})
    text = experiment_report.write(folder, spec)
    assert "| variant | `adversary` | `agent` |" in text
    assert "| fixed | -20.5 [-26.9, -14.1] | 7.0 [7.0, 7.0] |" in text
    assert "| nitro | - | 8.0 [8.0, 8.0] |" in text, "a class that a run does not have is no 0"


@pytest.mark.usefixtures("no_pictures")
def test_a_class_return_beyond_the_budget_has_its_rounds(tmp_path: Path) -> None:
    variants = {"fixed": {}, "longer": {"spec.stop.rounds": 4}}
    spec = load(write_spec(tmp_path, seeds=[0], variants=variants, budget={"rounds": 2}))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        rounds = run.job.spec.stop.rounds
        ended = {"evaluation": {"classes": {"adversary": -1.0, "agent": 7.0}}, "rounds": rounds}
        pretend(folder, run, actors=[4] * rounds, returns=[50] * rounds, ended=ended)
    text = experiment_report.write(folder, spec)
    assert "| fixed | -1.0" in text
    assert "| longer, 4 rounds | -1.0" in text


@pytest.mark.usefixtures("no_pictures")
def test_a_single_class_of_agents_needs_no_return_of_its_own(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, seeds=[0]))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        ended = {"evaluation": {"classes": {"agent": 8.0}}}
        pretend(folder, run, actors=[4, 4], returns=[0, 50], ended=ended)
    assert "class of agents" not in experiment_report.write(folder, spec)


@pytest.mark.usefixtures("no_pictures")
def test_questions_are_answered_by_return_and_by_cost(tmp_path: Path) -> None:
    """b costs half of a per actor and reaches 40 in eight of twelve seeds; nothing of c is finished."""
    questions = {"1. Is b?": ["b", "a"], "2. Is a?": ["a", "b"], "3. Is c?": ["c", "a"]}
    variants: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c": {}}
    spec = load(
        write_spec(tmp_path, seeds=list(range(12)), variants=variants, questions=questions, target=40.0)
    )
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        if run.variant != "c":
            cheap = run.variant == "b"
            end = (60 if run.seed < 8 else 30) if cheap else 80
            pretend(folder, run, actors=[4, 4], returns=[0, end], cents=0.5 if cheap else 1)
    (head, _, better, worse, absent, *_) = (
        experiment_report.write(folder, spec).split("| question", 1)[1].splitlines()
    )
    assert head == " | compared | return at the budget | cost of the budget | cost to reach 40 |"
    assert better.split(" | ")[1:4] == [
        "b - a",
        "worse: -30.0 [-39.4, -20.6]",
        "cheaper: -50.0 % [-50.0, -50.0]",
    ]
    # a: 40 of 80 lies half way between 0 cents and 4; b: two thirds between 0 and 2, in eight seeds.
    assert better.split(" | ")[4] == "no verdict: -33.3 % [-33.3, -33.3] (8 of 12 seeds) |"
    assert worse.split(" | ")[2:4] == ["better: +30.0 [+20.6, +39.4]", "dearer: +100.0 % [+100.0, +100.0]"]
    assert absent.split(" | ")[2:] == ["not finished", "not finished", "not finished |"]


@pytest.mark.usefixtures("no_pictures")
def test_each_environment_has_the_price_of_its_own_target(tmp_path: Path) -> None:
    """Runs reach 80 in CartPole-v1 and 8 in Acrobot-v1; Pendulum-v1 has no target."""
    ends = {"CartPole-v1": 80.0, "Acrobot-v1": 8.0, "Pendulum-v1": 8.0}
    job = preset_job()
    job["spec"]["environment"] = {"id": "CartPole-v1", "rolloutLength": 96}
    experiment = load(
        write_spec(
            tmp_path,
            job=job,
            environments=list(ends),
            target={"CartPole-v1": 40, "Acrobot-v1": 4},
            questions={"Is nitro?": ["nitro", "fixed"]},
        )
    )
    folder = ExperimentDir(tmp_path / "results")
    folder.open(experiment)
    for run in plan(experiment):
        pretend(folder, run, actors=[4, 4], returns=[0, ends[run.environment]])
    text = experiment_report.write(folder, experiment)
    asked, cartpole, acrobot, pendulum, _ = re.split(r"^## ", text, flags=re.MULTILINE)
    assert "| cost to reach the target (CartPole-v1 40, Acrobot-v1 4) |" in asked
    answers = [line.split(" | ")[-1] for line in asked.splitlines() if line.startswith("| Is nitro?")]
    assert answers == ["too few seeds: +0.0 % [+0.0, +0.0] |"] * 2 + ["no target |"]
    assert "| cost to reach 40 |" in cartpole
    assert "| cost to reach 4 |" in acrobot
    # Half of the way from 0 to 4 actor-rounds, of a cent each.
    assert cartpole.count("| $0.0200 (2 of 2) |") == acrobot.count("| $0.0200 (2 of 2) |") == 2
    assert "cost to reach" not in pendulum


def test_a_first_round_beyond_the_budget_is_interpolated_from_zero(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, score="evaluation_mean", questions={"Is nitro?": ["nitro", "fixed"]}))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        end = 10.0 if run.variant == "fixed" else 20.0
        pretend(folder, run, actors=[16], returns=[1], evaluations=[0], final=end)
    text = experiment_report.write(folder, spec)
    assert "| fixed | 5.0 [5.0, 5.0] | 5.0 | 5.0 to 5.0 | 2.5 [2.5, 2.5] | 0.5 | 768 | $0.0800 |" in text
    assert "too few seeds: +5.0 [+5.0, +5.0] | too few seeds: +0.0 % [+0.0, +0.0] |" in text


def test_a_budget_of_one_round_gives_a_report(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, budget={"rounds": 1}))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        pretend(folder, run, actors=[4], returns=[3])
    text = experiment_report.write(folder, spec)
    assert "| nitro | 3.0 [3.0, 3.0] | 3.0 | 3.0 to 3.0 | - | " in text, "there is nothing to take a mean of"
    assert "Over training: nothing, because there is no span" in text


@pytest.mark.usefixtures("no_pictures")
def test_the_mean_over_training_uses_one_interval_for_all_runs(tmp_path: Path) -> None:
    """One and the same learning curve, return = actor-rounds spent before, by rounds of 2 and of 4 actors.

    The last rounds begin at 6 and at 4.
    """
    spec = load(write_spec(tmp_path))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        actors = [2, 2, 2, 2] if run.variant == "fixed" else [4, 4]
        returns = [sum(actors[:index]) for index in range(len(actors))]
        pretend(folder, run, actors=actors, returns=returns)
    text = experiment_report.write(folder, spec)
    assert "Over training: from 0 to 4 actor-rounds." in text
    for variant, end in (("fixed", 6), ("nitro", 4)):
        assert (
            f"| {variant} | {end}.0 [{end}.0, {end}.0] | {end}.0 | {end}.0 to {end}.0 | 2.0 [2.0, 2.0] |"
            in text
        )
    assert "| nitro - fixed | -2.0 [-2.0, -2.0] | +0.0 [+0.0, +0.0] |" in text
    with (folder.path / "runs.csv").open() as file:
        assert {row["reward_mean_over_training"] for row in csv.DictReader(file)} == {"2.0"}


@pytest.mark.usefixtures("no_pictures")
def test_off_policy_rounds_count_the_steps_that_they_learned_from(tmp_path: Path) -> None:
    """Rounds of four actors that end with two rollouts: 8 actor-rounds are four rounds and not two."""
    spec = load(write_spec(tmp_path))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        pretend(folder, run, actors=[4] * 4, returns=[1, 2, 3, 4], learned=[2] * 4)
    text = experiment_report.write(folder, spec)
    assert "| nitro | 4.0 [4.0, 4.0] | 4.0 | 4.0 to 4.0 | 2.5 [2.5, 2.5] | 4.0 | 768 | " in text
    with (folder.path / "runs.csv").open() as file:
        assert {row["actor_rounds"] for row in csv.DictReader(file)} == {"8.0"}


@pytest.mark.usefixtures("no_pictures")
def test_a_dollar_budget_may_be_reached_outside_of_rounds(tmp_path: Path) -> None:
    """An interruption broke off a round: what it cost ended the run, whose last row is below the budget."""
    spec = load(write_spec(tmp_path, budget={"dollars": 0.09}))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        short = run.variant == "nitro"
        ended = {"reason": "BudgetSpent", "cost": {"total": 0.1 if short else 0.13}}
        pretend(folder, run, actors=[4, 4] if short else [4, 4, 4], returns=[0, 8, 8], ended=ended)
    text = experiment_report.write(folder, spec)
    assert "| nitro | 8.0 [8.0, 8.0] | 8.0 | " in text
    assert "| 2.0 | 768 | $0.0900 |" in text
    assert "| nitro - fixed | +0.0 [+0.0, +0.0] |" in text


@pytest.mark.usefixtures("no_pictures")
def test_an_environment_of_which_nothing_can_be_compared_is_named(tmp_path: Path) -> None:
    """In the second one no run is finished; in the third each variant has a run that ended early."""
    adapt = {"spec.scaling.scaler": "minionsrl-adapt", "spec.stop.targetReward": 50}
    spec = load(
        write_spec(
            tmp_path,
            variants={"adapt": adapt},
            environments=["done", "begun", "early"],
            set={"spec.environment.entryPoint": None},
        )
    )
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        actors = [4] if run.environment == "early" else [4, 4]
        pretend(folder, run, actors=actors, returns=[0, 20], finished=run.environment != "begun")
    text = experiment_report.write(folder, spec)
    assert "## done" in text
    assert "begun is left out: no seed is finished by every variant.\n" in text
    assert (
        "early is left out: no seed is finished by every variant. Left out, because runs of theirs ended "
        "before the budget: adapt (2 runs)." in text
    )


@pytest.mark.usefixtures("no_pictures")
def test_a_variant_of_which_a_run_ended_before_the_budget_is_not_compared(tmp_path: Path) -> None:
    """The scaler looks at the target, so the variant must have one, and seed 1 reaches it half way."""
    adapt = {"spec.scaling.scaler": "minionsrl-adapt", "spec.stop.targetReward": 50}
    variants: dict[str, dict[str, object]] = {"fixed": {}, "adapt": adapt, "nitro": {}}
    questions = {"Is it?": ["adapt", "fixed"]}
    spec = load(write_spec(tmp_path, variants=variants, questions=questions, against=["fixed"]))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        early = run.variant == "adapt" and run.seed == 1
        pretend(folder, run, actors=[4] if early else [4, 4], returns=[50] if early else [0, 20])
    text = experiment_report.write(folder, spec)
    assert (
        "2 paired seeds: 0, 1. Left out, because runs of theirs ended before the budget: adapt (1 run). "
        "Raise their spec.stop.targetReward and" in text
    )
    assert "| Is it? | adapt - fixed | ended early | ended early |" in text
    assert "| nitro - fixed | +0.0 [+0.0, +0.0] |" in text
    assert "| adapt |" not in text
    assert "nan" not in text
    with (folder.path / "runs.csv").open() as file:
        found = {(row["variant"], row["seed"]): row["reward_mean_at_budget"] for row in csv.DictReader(file)}
    assert (found["adapt", "0"], found["adapt", "1"]) == ("20.0", "nan")


@pytest.mark.usefixtures("no_pictures")
def test_no_report_is_made_where_every_variant_ended_before_the_budget(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        pretend(folder, run, actors=[4], returns=[1])
    with pytest.raises(RunDirError, match=r"ended before the budget: fixed \(2 runs\), nitro \(2 runs\)"):
        experiment_report.write(folder, spec)


@pytest.mark.usefixtures("no_pictures")
def test_no_relative_difference_is_given_for_a_price_of_zero(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path, questions={"Is nitro?": ["nitro", "fixed"]}))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        pretend(folder, run, actors=[4, 4], returns=[1, 2], cents=0)
    text = experiment_report.write(folder, spec)
    assert "| Is nitro? | nitro - fixed | too few seeds: +0.0 [+0.0, +0.0] | not known |" in text


def test_the_report_leaves_tables_and_pictures(experiment: tuple[ExperimentDir, Experiment]) -> None:
    folder, spec = experiment
    text = experiment_report.write(folder, spec)
    assert folder.report.read_text() == text
    for name in ("overview", "actors"):
        picture = folder.path / "figures" / f"two-state-{name}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG"
        assert f"(figures/two-state-{name}.png)" in text
    assert "evaluation_mean" not in text, "nothing was evaluated"
    assert "reward_mean.png" not in text, "the overview has its curves"
    assert "cost_total" not in text, "a cost that grows with the rounds is a straight line"
    with (folder.path / "runs.csv").open() as file:
        rows = {(row["variant"], row["seed"]): row for row in csv.DictReader(file)}
    assert set(rows) == {("fixed", "0"), ("fixed", "1"), ("nitro", "0"), ("nitro", "1")}
    assert float(rows["nitro", "1"]["reward_mean_at_budget"]) == 32
    assert float(rows["nitro", "1"]["actor_rounds"]) == 10
    with (folder.path / "curves.csv").open() as file:
        curves = list(csv.DictReader(file))
    last = [row for row in curves if (row["variant"], row["metric"]) == ("nitro", "reward_mean")][-1]
    assert (float(last["actorRounds"]), float(last["mean"])) == (6.0, 31.0), "where the last round began"


def test_a_return_is_placed_at_the_start_of_its_policy(
    experiment: tuple[ExperimentDir, Experiment],
) -> None:
    folder, spec = experiment
    run = plan(spec)[0]
    pretend(folder, run, actors=[2, 4, 4], returns=[5, 6, 7], evaluations=[1.0, 2.0, 3.0], final=4.0)
    finished = read(folder.run(run), run.job)
    evaluated = finished.curve("evaluation_mean", "actorRounds")
    assert (evaluated.x.tolist(), evaluated.y.tolist()) == ([0, 2, 6, 10], [1, 2, 3, 4])
    trained = finished.curve("reward_mean", "actorRounds")
    assert (trained.x.tolist(), trained.y.tolist()) == ([0, 2, 6], [5, 6, 7])
    assert [trained.at(x) for x in (4, 8, 10)] == [6.5, 7, 7]


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_goes_on_beyond_the_budget_is_read_there_like_one_that_ended(tmp_path: Path) -> None:
    """A policy that has learned from all rounds of the budget plays only in a run that goes on."""
    longer = {"spec.scaling.scaler": "fixed", "spec.stop.rounds": 4}
    variants: dict[str, dict[str, object]] = {"fixed": {"spec.scaling.scaler": "fixed"}, "longer": longer}
    spec = load(write_spec(tmp_path, variants=variants, budget={"rounds": 3}, target=25))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        returns = [0.0, 10.0, 20.0, 30.0][: run.job.spec.stop.rounds]
        pretend(folder, run, actors=[2] * len(returns), returns=returns)
    text = experiment_report.write(folder, spec)
    assert "| longer - fixed | +0.0 [+0.0, +0.0] |" in text
    row = next(line for line in text.splitlines() if line.startswith("| longer | "))
    assert row.startswith("| longer | 20.0 [20.0, 20.0] |")
    assert row.endswith(" 0 of 2 |"), "25 was reached beyond the budget"
    with (folder.path / "runs.csv").open() as file:
        assert {row["reward_mean_at_budget"] for row in csv.DictReader(file)} == {"20.0"}


def test_a_report_goes_into_a_page_between_its_markers(
    experiment: tuple[ExperimentDir, Experiment], tmp_path: Path
) -> None:
    folder, spec = experiment
    text = experiment_report.write(folder, spec)
    page = tmp_path / "results.md"
    page.write_text("# Results\n")
    with pytest.raises(RunDirError, match="Add these two lines to it:\n<!-- experiment two: begin -->"):
        experiment_report.insert(text, folder, spec.name, page)
    page.write_text(
        "# Results\n<!-- experiment two: begin -->\nold\n<!-- experiment two: end -->\nThe end.\n"
    )
    for _ in range(2):  # again changes nothing
        experiment_report.insert(text, folder, spec.name, page)
        shown = page.read_text()
        assert shown.startswith("# Results\n<!-- experiment two: begin -->\n## two\n")
        assert shown.endswith("<!-- experiment two: end -->\nThe end.\n")
        assert "old" not in shown
        assert "(two-two-state-overview.png)" in shown
    assert (tmp_path / "two-two-state-overview.png").exists()


def test_a_report_creates_a_page_that_does_not_exist(
    experiment: tuple[ExperimentDir, Experiment], tmp_path: Path
) -> None:
    folder, spec = experiment
    text = experiment_report.write(folder, spec)
    page = tmp_path / "docs" / "results" / "two.md"
    experiment_report.insert(text, folder, spec.name, page)
    created = page.read_text()
    expected = text.replace("](figures/", "](two-")
    assert created == f"<!-- experiment two: begin -->\n{expected}<!-- experiment two: end -->\n"
    for picture in re.findall(r"\]\(([^)]+\.png)\)", created):
        assert (page.parent / picture).exists()
    page.write_text(f"{created}\nA note.\n")
    experiment_report.insert(text, folder, spec.name, page)
    assert page.read_text() == f"{created}\nA note.\n", "the section is replaced, the note stays"


def test_without_a_complete_seed_there_is_no_report(tmp_path: Path) -> None:
    spec = load(write_spec(tmp_path))
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    with pytest.raises(RunDirError, match="no seed is finished yet"):
        experiment_report.write(folder, spec)


def test_a_folder_with_other_files_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "taxes.ods").touch()
    with pytest.raises(RunDirError, match="holds something that is no experiment"):
        ExperimentDir(tmp_path).open(load(write_spec(tmp_path)))


def test_a_variant_that_misses_the_target_more_often_does_not_look_cheap() -> None:
    """Only its cheap seeds have a price, so a verdict on them would be wrong far more often than said."""
    draws = np.random.default_rng(0)
    steady, erratic = (np.exp(draws.normal(0, sigma, 20)) for sigma in (0.1, 0.6))
    reached = np.where(erratic <= 1.2, erratic, np.inf)
    text, verdict = dearer(reached, np.where(steady <= 1.2, steady, np.inf))
    assert text.startswith("no verdict: -")
    assert verdict is None
    assert dearer(erratic, steady)[1] is not None
    both_lack_one = [np.where(np.arange(20) == 3, np.inf, one) for one in (erratic, steady)]
    assert dearer(*both_lack_one)[1] is not None, "the seeds that are left decide nothing between the two"
