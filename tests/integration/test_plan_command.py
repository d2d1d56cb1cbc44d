"""`nitro plan`: a real probe of a small job, as a table, as JSON and from Python."""

import json
from pathlib import Path

import nitro_learner
from nitro_learner.studies.planning.plan import BACKENDS
from train_support import nitro, write_job

SMALL = {
    "environment": {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 4},
    "scaling": {"scaler": "nitro", "minActors": 2, "maxActors": 4},
    "evaluation": {"episodes": 2, "everyRounds": 5},
    "stop": {"rounds": 40, "envSteps": 2048},
}


def test_a_job_is_planned_by_training_it_for_a_moment(tmp_path: Path) -> None:
    shown = nitro("plan", write_job(tmp_path, **SMALL), "--json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert [(one["actors"], one["backend"]) for one in result["choices"]] == [
        (actors, backend) for actors in (1, 2, 4) for backend in BACKENDS
    ]
    measured = result["measured"]
    # The nitro scaler's detector was measured, and so was an evaluation.
    assert min(measured[name] for name in ("actor", "detector", "evaluation", "start")) > 0
    assert result["interval"]["low"] <= 1 <= result["interval"]["high"]
    for one in result["choices"]:
        assert one["envSteps"] == 2048
        assert one["rounds"] * one["actors"] * 64 == 2048
        assert 0 < one["work"] <= 1
        assert one["seconds"] > one["rounds"] * one["roundSeconds"]
        assert one["dollars"] > 0
    assert not list(tmp_path.glob("**/*.csv")), "the probe leaves nothing behind"


def test_python_has_the_same_plan(tmp_path: Path) -> None:
    plan = nitro_learner.plan(write_job(tmp_path, **SMALL))
    assert plan.cheapest.env_steps == plan.quickest.env_steps == 2048
    assert len(plan.to_dict()["choices"]) == len(plan.choices) == 12


def test_an_environment_that_is_not_here_is_a_sentence(tmp_path: Path) -> None:
    shown = nitro("plan", write_job(tmp_path, environment={"entryPoint": "nowhere:Env"}))
    assert shown.returncode == 1
    assert "Traceback" not in shown.stderr
    assert "nowhere:Env cannot be loaded" in shown.stderr
    assert "nitro plan JOB --from RUN" in shown.stderr


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    for arguments, said in (
        ([], "give a job file, or runs with --from"),
        ([write_job(tmp_path), "--return", "3"], "name them with --from"),
        (["--from", tmp_path / "none"], "no job.yaml in it"),
    ):
        shown = nitro("plan", *arguments)
        assert shown.returncode == 2
        assert said in shown.stderr
