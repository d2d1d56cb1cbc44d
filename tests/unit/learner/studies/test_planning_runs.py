"""Plans by earlier runs: what is read from their folders, and when they reached a return."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_learner.run.rundir import RunDirError
from nitro_learner.studies.planning import view
from nitro_learner.studies.planning.measuring import planned_from
from nitro_learner.studies.planning.runs import chance
from nitro_learner.training.round_report import COLUMNS

STEPS, ACTOR, REST = 100, 2.0, 0.1


def job(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "earlier"},
        "spec": {
            "environment": {"id": "CartPole-v1", "rolloutLength": STEPS},
            "backend": {"type": "Local", "local": {"processes": 2}},
            "algorithm": {"preset": "tuned"},
            "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 4, "initialActors": 2},
            "evaluation": {"everyRounds": 2},
            "stop": {"rounds": 10},
            "pricing": {"actorMemoryGB": 1.0},
            **changes,
        },
    }


def run_folder(path: Path, means: Sequence[float | None], **changes: Any) -> Path:
    """A run whose rounds have 2 and 4 actors on two processes in turn, rollouts of 2 s, an update of a second
    and half a second for each of them, and a detector of 0.2 s beside the next round."""
    path.mkdir()
    (path / "job.yaml").write_text(yaml.safe_dump(job(**changes)))
    rows, ledger, log = [], [], []
    steps, clock = 0, 0.0
    for number, mean in enumerate(means, start=1):
        actors = 2 if number % 2 else 4
        detector = 0.2 if number > 1 else 0.0
        # One begins at once and the other, with a free process, when the detector is done.
        sample = detector + ACTOR if actors == 2 else ACTOR * 2
        update = 1.0 + 0.5 * actors + (30.0 if number == 1 else 0.0)  # the first one compiles
        total = sample + update + REST
        steps, clock = steps + actors * STEPS, clock + total
        row = dict.fromkeys(COLUMNS, 0.0) | {"round": number, "actors": actors, "env_steps": steps}
        row |= {"seconds_sample": sample, "seconds_update": update, "seconds_total": total}
        row |= {"seconds_actor": ACTOR, "wall_seconds": clock, "cost_total": 0.01 * number}
        rows.append(row | {"evaluation_mean": "" if mean is None else mean})
        played = 2 if mean is not None else 0
        details = {"invocations": actors + played, "billedSeconds": actors * ACTOR + played * 1.5}
        ledger.append({"round": number, "learner": 0.0, "actors": 0.0, "details": details})
        log.append({"message": "round done", "round": number, "detector_seconds": 0.2})
    with (path / "metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (path / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ledger) + '{"round":')
    (path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return path


MEANS = [None, None, None, None, 5.0, None, None, 9.0]


def test_the_rounds_of_a_run_give_the_times_of_the_model(tmp_path: Path) -> None:
    plan = planned_from(None, (), [run_folder(tmp_path / "run", MEANS)])
    times = plan.times
    assert (times.actor, times.crowded, times.detector, times.rest) == pytest.approx((2.0, 2.0, 0.2, REST))
    assert (times.update.base, times.update.each) == pytest.approx((1.0, 0.5))
    assert times.evaluation == pytest.approx(3.0)
    assert times.first == pytest.approx(30.0, rel=0.05)
    four = plan.of("local", 4)
    assert four.round_seconds == pytest.approx(4.0 + 3.0 + REST, rel=0.05)
    assert four.rounds == 10


def test_a_job_of_other_actors_is_planned_by_the_run(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", MEANS)
    wider = job(scaling={"scaler": "fixed", "maxActors": 16, "initialActors": 16}, stop={"envSteps": 16_000})
    plan = planned_from(wider, (), [run])
    assert plan.of("local").rounds == 10
    # Eight waves and an update of sixteen.
    assert plan.of("local").round_seconds == pytest.approx(8 * ACTOR + 9.0 + REST, rel=0.05)


def test_runs_of_another_environment_are_refused(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", MEANS)
    other = job(environment={"id": "Hopper-v5", "rolloutLength": STEPS})
    with pytest.raises(
        RunDirError, match=r"spec\.environment\.id is CartPole-v1, and that of the job is Hopper"
    ):
        planned_from(other, (), [run])
    away = run_folder(tmp_path / "away", MEANS, backend={"type": "Knative"})
    with pytest.raises(RunDirError, match=r"spec\.backend\.type is Knative"):
        planned_from(None, (), [run, away])
    # Of a run elsewhere nothing is known of this machine.
    assert {one.backend for one in planned_from(None, (), [away]).choices} == {"knative", "lambda", "pool"}


def test_a_scaler_that_measures_is_planned_by_runs_that_did(tmp_path: Path) -> None:
    fixed = {"scaler": "fixed", "minActors": 1, "maxActors": 4, "initialActors": 2}
    run = run_folder(tmp_path / "run", MEANS, scaling=fixed)
    with pytest.raises(RunDirError, match=r"its scaler fixed measures nothing, and that of the job, nitro"):
        planned_from(job(), (), [run])
    measured = run_folder(tmp_path / "measured", MEANS)
    assert planned_from(job(scaling=fixed), (), [measured]).times.detector == 0.0


def test_when_seeds_reached_a_return_and_when_they_did_not(tmp_path: Path) -> None:
    early = run_folder(tmp_path / "early", [None, None, 0.0, None, 9.0, None])
    late = run_folder(tmp_path / "late", MEANS)
    never = run_folder(tmp_path / "never", [None, None, -3.0, None])
    plan = planned_from(None, (), [early, late, never], 9.0)
    assert [(one.reached, one.env_steps, one.best) for one in plan.reached] == [
        (True, 1400, 9.0),
        (True, 2400, 9.0),
        (False, 1200, -3.0),
    ]
    told = view.notes(plan)
    assert "Return 9: 2 of 3 runs reached it in an evaluation, after 1,400 steps" in told
    assert "to 2,400 steps" in told
    assert "the others had not after 1,200 steps (best: -3)" in told
    assert plan.to_dict()["return"]["runs"][2]["reached"] is False
    both = view.notes(planned_from(None, (), [early, late], 9.0))
    assert "With a probability of 50% the median of all seeds lies between" in both
    assert chance(5) == pytest.approx(1 - 2 / 2**5)
