"""Keyword arguments of an environment in an experiment: what is written as a float stays one."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.search_spec import is_integer
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.running.on_cluster.manifests import manifest

FIELD = "spec.environment.kwargs"


def experiment(folder: Path, **fields: Any) -> Experiment:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "floats"},
        "spec": {"environment": {"id": "Mine-v0", "kwargs": {"job": 1.0, "whole": 1}}},
    }
    path = folder / "experiment.yaml"
    path.write_text(
        yaml.safe_dump({"name": "floats", "job": job, "seeds": [0], "budget": {"rounds": 2.0}, **fields})
    )
    return load(path)


def test_of_the_job_of_set_and_of_variants(tmp_path: Path) -> None:
    variants = {"a": {f"{FIELD}.own": 3.0}, "b": {"spec.environment": {"id": "B-v0", "kwargs": {"own": 4.0}}}}
    found = experiment(tmp_path, set={f"{FIELD}.all": 2.0, "spec.scaling.maxActors": 5.0}, variants=variants)
    runs = {run.variant: run for run in plan(found)}
    kwargs = {name: run.job.spec.environment.kwargs for name, run in runs.items()}
    assert json.dumps(kwargs["a"]) == '{"job": 1.0, "whole": 1, "all": 2.0, "own": 3.0}'
    assert json.dumps(kwargs["b"]) == '{"own": 4.0}'
    assert found.budget is not None
    assert json.dumps(found.budget.rounds) == "2", "what has a type is read by it"
    stored = manifest(found, runs["a"], runs["a"].job, "one")["spec"]["environment"]["kwargs"]
    assert stored == {
        "job": {"$float": 1.0},
        "whole": 1,
        "all": {"$float": 2.0},
        "own": {"$float": 3.0},
    }


def test_of_a_scalers_settings(tmp_path: Path) -> None:
    own = {"spec.scaling": {"entryPoint": "mine:Plateau", "settings": {"weight": 1.0, "patience": 3}}}
    found = experiment(tmp_path, variants={"a": own, "b": {"spec.scaling.maxActors": 4}})
    run = next(run for run in plan(found) if run.variant == "a")
    assert json.dumps(run.job.spec.scaling.settings, sort_keys=True) == '{"patience": 3, "weight": 1.0}'
    stored = manifest(found, run, run.job, "one")["spec"]["scaling"]["settings"]
    assert stored == {"weight": {"$float": 1.0}, "patience": 3}


@pytest.mark.parametrize(
    ("low", "high", "whole"), [(1, 5, True), (1.0, 5.0, False), (1, 5.0, False), (0.5, 5.0, False)]
)
def test_a_range_of_floats_is_tried_by_floats(tmp_path: Path, low: Any, high: Any, whole: bool) -> None:
    space = {f"{FIELD}.own": {"low": low, "high": high}, f"{FIELD}.other": {"choices": [1.0, 2.0]}}
    search = experiment(tmp_path, search={"trials": 2, "seeds": [3], "space": space}).search
    assert search is not None
    assert is_integer(f"{FIELD}.own", search.space[f"{FIELD}.own"]) is whole
    assert json.dumps(search.space[f"{FIELD}.other"].choices) == "[1.0, 2.0]"


def test_a_range_of_rllibs_settings_is_read_as_before(tmp_path: Path) -> None:
    path = "spec.algorithm.rllib.num_epochs"
    search = experiment(
        tmp_path, search={"trials": 2, "seeds": [3], "space": {path: {"low": 1.0, "high": 5.0}}}
    ).search
    assert search is not None
    assert is_integer(path, search.space[path])
