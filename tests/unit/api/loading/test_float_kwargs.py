"""Keyword arguments of an environment keep the kind of their numbers up to the constructor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_actor.config import EnvironmentConfig
from nitro_api import JobInvalid, NitroTrainingJob, load_job, resolve
from nitro_api.loading.job_file import lost_points, resolve_stored
from nitro_api.spec.free_json import marked, point_lost

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: floats}
spec:
  environment:
    id: Mine-v0
    kwargs: {start: 1.0, deep: {list: [2.0, 2, 1.0e+3, -0.0, {x: 0.5}]}, whole: 3, big: 1.0e+22}
"""
KWARGS = {
    "start": 1.0,
    "deep": {"list": [2.0, 2, 1000.0, -0.0, {"x": 0.5}]},
    "whole": 3,
    "big": 1e22,
}


def at_the_constructor(job: NitroTrainingJob) -> dict[str, Any]:
    return EnvironmentConfig.from_json(json.dumps(resolve(job).spec.environment.to_actor())).kwargs


def same(found: Any, wanted: Any) -> bool:
    """Equal in value and in kind: in Python 1 is equal to 1.0."""
    return bool(found == wanted) and json.dumps(found) == json.dumps(wanted)


@pytest.mark.parametrize("source", [JOB, yaml.safe_load(JOB), json.dumps(yaml.safe_load(JOB)) + "\n"])
def test_floats_arrive_as_floats(source: Any) -> None:
    job = load_job(source)
    assert same(at_the_constructor(job), KWARGS)
    again = load_job(job.to_yaml())
    assert same(at_the_constructor(again), KWARGS), "the job.yaml of a run folder says the same"
    assert same(at_the_constructor(resolve_stored(job.to_dict())), KWARGS)


def test_floats_of_an_override_arrive_as_floats() -> None:
    job = load_job(JOB, ["spec.environment.kwargs={a: 1.0, b: [1]}", "spec.environment.kwargs.c=2.0"])
    assert same(at_the_constructor(job), {"a": 1.0, "b": [1], "c": 2.0})


def test_what_has_a_type_is_read_by_it() -> None:
    """Also RLlib's settings, whose types RLlib knows."""
    overrides = ["spec.stop.rounds=1e3", "spec.algorithm={name: rllib/ppo, rllib: {minibatch_size: 2.0e+2}}"]
    spec = load_job(JOB, overrides).spec
    assert same([spec.stop.rounds, spec.algorithm.rllib], [1000, {"minibatch_size": 200}])


def test_a_float_that_json_would_lose_is_marked() -> None:
    stored = marked(KWARGS)
    assert stored["start"] == {"$float": 1.0}
    as_the_api_server_has_it = json.loads(json.dumps(stored).replace("1.0}", "1}").replace("2.0}", "2}"))
    data = yaml.safe_load(JOB)
    data["spec"]["environment"]["kwargs"] = as_the_api_server_has_it
    assert same(at_the_constructor(load_job(data)), KWARGS)
    assert list(point_lost(stored)) == []


def test_a_mapping_of_ones_own_may_have_such_a_name() -> None:
    own = {"$float": 1, "unit": "m"}
    job = load_job(JOB, [f"spec.environment.kwargs={{a: {json.dumps(own)}}}"])
    assert at_the_constructor(job) == {"a": own}
    assert at_the_constructor(load_job(JOB, ["spec.environment.kwargs={$float: 1}"])) == {"$float": 1}


@pytest.mark.parametrize("value", ["one", "true", "[1]"])
def test_a_mark_without_a_number_is_a_mistake(value: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        load_job(JOB, [f"spec.environment.kwargs={{a: [{{$float: {value}}}]}}"])
    (error,) = refused.value.errors
    assert error.path == "spec.environment.kwargs.a[0]"
    assert "as in {$float: 1}; correct it" in error.message


def test_a_float_that_a_cluster_would_not_see_is_told(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    assert lost_points(path) == [
        "spec.environment.kwargs.start: on a cluster 1.0 is 1, and 3 more values alike, because kubectl and "
        "the API server drop the point; write {$float: 1} where the constructor needs a float"
    ]
    assert lost_points(path, ["spec.environment.kwargs={a: 0.5, b: 1, c: {$float: 1.0}}"]) == []
    assert lost_points(path, ["spec.environment.kwargs=null"]) == []


@pytest.mark.parametrize("part", ["scaling", "network"])
def test_floats_of_the_settings_of_ones_own_part_arrive_as_floats(part: str, tmp_path: Path) -> None:
    given = (
        f"spec.{part}={{entryPoint: 'mine:Part', settings: {{weight: 1.0, marked: {{$float: 2}}, steps: 3}}}}"
    )
    job = load_job(JOB, ["spec.environment.kwargs=null", given])
    wanted = {"weight": 1.0, "marked": 2.0, "steps": 3}
    for read in (job, load_job(resolve(job).to_yaml())):
        assert same(getattr(resolve(read).spec, part).settings, wanted)
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    (told,) = lost_points(path, ["spec.environment.kwargs=null", given])
    assert told.startswith(f"spec.{part}.settings.weight: on a cluster 1.0 is 1, because kubectl and ")
