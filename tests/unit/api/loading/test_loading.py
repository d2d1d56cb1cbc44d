"""A wrong job is refused with every mistake at its path; a right one is read as kubectl reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nitro_api import FieldError, JobInvalid, load_job
from nitro_api.errors import ABSENT
from nitro_api.loading import yamlfile
from nitro_api.loading.job_file import names_at
from nitro_api.schema.openapi import Schema, job_schema
from nitro_api.schema.wording import Location
from nitro_api.spec.job import GivenSpec

ROOT = Path(__file__).parents[4]
WRONG = yaml.safe_load(Path(__file__).with_name("wrong_jobs.yaml").read_text())
JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper}
spec:
  environment: {id: Hopper-v5}
"""

LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 7))
"""A few lines of aliases that mean a million values."""


def refusal(source: Any, *overrides: str) -> list[FieldError]:
    with pytest.raises(JobInvalid) as invalid:
        load_job(source, overrides)
    return invalid.value.errors


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case["name"])
def test_a_wrong_job_is_refused_at_its_path(case: dict[str, Any]) -> None:
    errors = refusal(JOB, *case["set"])
    assert {error.path for error in errors} == {case["path"], *case.get("also", ())}
    if sentence := case.get("sentence"):
        assert sentence in [error.message for error in errors]
    for error in errors:
        assert error.message.startswith(("must", "is ", "excludes"))
        assert ";" in error.message, "no remedy"
        assert "\n" not in str(error)


def test_the_list_of_wrong_jobs_is_long_enough() -> None:
    assert len(WRONG) >= 20


def test_all_mistakes_come_at_once_with_value_and_remedy() -> None:
    errors = refusal(
        JOB,
        "spec.seed='7'",
        "spec.scaling={minActors: 5, maxActors: 3, min_actors: 3}",
        "spec.backend={type: Local, knative: {}}",
        "metadata.name=X y",
        "spec.rounds=3",
    )
    assert sorted(map(str, errors)) == [
        'metadata.name: "X y"; must be at most 40 lower-case letters, digits and hyphens, a letter first; '
        "rename the job",
        "spec.backend.knative: {}; is only allowed with type: Knative; remove the block or set type: Knative",
        "spec.rounds: 3; is not a field of spec; did you mean spec.stop.rounds?",
        "spec.scaling.minActors: 5; must be at most maxActors; lower minActors or raise maxActors",
        "spec.scaling.min_actors: 3; is not a field of spec.scaling; did you mean minActors?",
        'spec.seed: "7"; must be an integer from 0 to 4294967295; remove the quotes',
    ]


def test_wrong_overrides_hide_no_mistake() -> None:
    function = (
        "spec.backend={type: Lambda, lambda: {roleArn: 'arn:aws:iam::123456789012:role/nitro', "
        "image: '123456789012.dkr.ecr.us-east-2.amazonaws.com/games:1'}}"
    )
    errors = refusal(JOB, "spec.seed=[", "spec..x=1", "spec.environment.id=ALE/Pong-v5", function)
    assert [error.path for error in errors] == ["spec.seed", "", "spec.network.hiddenSizes"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("spec.environment=null", "spec.environment"),
        ("spec.environment={}", "spec.environment.id"),
        ("spec.environment.id='a b'", "spec.environment.id"),
        ("spec=null", "spec"),
        ("spec.backend.type=Lambda", "spec.backend.lambda"),
        ("spec.scaling.scaler=schedule", "spec.scaling.schedule"),
    ],
)
def test_a_mistake_inside_a_block_hides_no_mistake_outside(change: str, path: str) -> None:
    assert {error.path for error in refusal(JOB, "metadata.name=Bad_Name", change)} == {path, "metadata.name"}


def test_the_models_have_the_fields_of_the_schema_at_every_place() -> None:
    places: list[tuple[Location, Schema]] = [((), job_schema())]
    for place, schema in places:
        properties = schema.get("properties")
        if place != ("spec", "algorithm", "rllib"):
            assert names_at(place) == (set(properties) if properties else None), place
        places += [((*place, name), below) for name, below in (properties or {}).items()]
        for part, key in ((0, "items"), ("any", "additionalProperties")):
            if isinstance(schema.get(key), dict):
                places.append(((*place, part), schema[key]))
    assert len(places) > 300


def test_a_null_in_an_unknown_field_is_a_mistake() -> None:
    assert [error.path for error in refusal(JOB, "spec.nonsense=null")] == ["spec.nonsense"]


@pytest.mark.parametrize(
    ("job", "mistake"),
    [
        ({"spec": {"enviroment": {"id": "Hopper-v5"}}}, "spec.enviroment"),
        ({"spec": {"environment": {"ID": "Hopper-v5"}}}, "spec.environment.ID"),
        ({"spec": {"environment": {"entrypoint": "mine:make"}}}, "spec.environment.entrypoint"),
        ({"metdata": {"name": "hopper"}}, "metdata"),
        ({"metadata": {"nme": "hopper"}}, "metadata.nme"),
        ({"spce": {"environment": {"id": "Hopper-v5"}}}, "spce"),
        ({"Kind": "NitroTrainingJob"}, "Kind"),
    ],
)
def test_a_misspelt_field_that_is_required_is_one_mistake(job: dict[str, Any], mistake: str) -> None:
    lacking = {"metdata": "metadata", "spce": "spec", "Kind": "kind"}.get(next(iter(job)))
    data = {name: value for name, value in yaml.safe_load(JOB).items() if name != lacking} | job
    (error,) = refusal(data)
    assert error.path == mistake
    assert "did you mean" in error.message


def test_a_required_field_is_missed_where_no_name_comes_near_it() -> None:
    data = yaml.safe_load(JOB) | {"spec": {"env": {"id": "Hopper-v5"}, "sed": 3}}
    assert [error.path for error in refusal(data)] == ["spec.environment", "spec.env", "spec.sed"]


@pytest.mark.parametrize("seed", [2.0, 2])
def test_a_whole_number_may_be_written_with_a_point(seed: float) -> None:
    data = yaml.safe_load(JOB)
    data["spec"] |= {"seed": seed, "scaling": {"schedule": [4.0, 8], "scaler": "schedule"}}
    spec = load_job(data).spec
    assert (spec.seed, spec.scaling.schedule) == (2, [4, 8])
    assert isinstance(spec.seed, int)
    assert [error.path for error in refusal(data, "spec.seed=2.5")] == ["spec.seed"]


def test_rules_about_a_wrong_field_say_nothing() -> None:
    errors = refusal(JOB, "spec.environment={id: 5, atari: {}, envsPerActor: 3, rolloutLength: 7}")
    assert [error.path for error in errors] == ["spec.environment.id", "spec.environment.envsPerActor"]


def test_taking_out_a_wrong_field_makes_no_new_mistake() -> None:
    errors = refusal(JOB, "spec.scaling={scaler: schedule, schedule: [8, 0]}")
    assert [error.path for error in errors] == ["spec.scaling.schedule[1]"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("spec.scaling.scaler=nitr",
         "must be one of nitro, fixed, schedule, random-score, efficient, growth, kungfu, hydrozoa, "
         "minionsrl, minionsrl-adapt, marless, own; did you mean nitro?"),
        ("spec.scaling.minActors=0",
         "must be an integer from 1 to 4096; raise it or leave it out for the default"),
        ("spec.seed=-1",
         "must be an integer from 0 to 4294967295; raise it or leave it out for the default"),
        ("spec.algorithm.hyperparameters.learningRate=2",
         "must be a number above 0 and at most 1; lower it or leave it out for the default"),
        ("spec.stop.targetReward=.nan", "must be a number; change it or leave it out for the default"),
        ("spec.suspend='true'", "must be true or false; remove the quotes"),
        ("spec.actor.resources={limits: {cpu: 0.5}}",
         "must be an integer or a text such as 500m, 1.5 or 2Gi; put it in quotes"),
        ("spec.environment.id=5", "must be text of 1 to 253 characters; put it in quotes"),
        ("spec.environment.kwargs={1: 2}", "must have text as a key; put the key in quotes"),
        ("spec.learner=3",
         "must be a mapping with fields such as labels, annotations, env; change it or leave it out "
         "for the default"),
        ("spec.environment=null",
         "is required and must be a mapping with fields such as id, kwargs, entryPoint; add it"),
        ("spec.qqq=1",
         "is not a field of spec; remove it, or use one of environment, algorithm, code, sharing, network, "
         "seed, evaluation, stop, scaling, backend, cache, actor, learner, pricing, tracking, resumeFrom, "
         "suspend, ttlSecondsAfterFinished, activeDeadlineSeconds"),
        ("kind=Job", "must be NitroTrainingJob; change it"),
    ],
)  # fmt: skip
def test_a_message_names_the_allowed_values_and_the_remedy(change: str, message: str) -> None:
    assert [error.message for error in refusal(JOB, change)] == [message]


def test_an_absent_field_is_not_shown_as_a_value() -> None:
    (error,) = refusal(JOB, "metadata.name=null")
    assert error.value is ABSENT
    assert str(error).startswith("metadata.name: is required and must be text")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty; see examples/ for jobs"),
        ("# nothing\n", "is empty"),
        ("---\n", "is empty"),
        (JOB + "---\n" + JOB, "holds 2 documents, the second from line 7; put each in a file of its own"),
        ("- 1\n- 2\n", "must be a mapping with apiVersion, kind, metadata and spec"),
        ("just text\n", "must be a mapping"),
        (JOB + "\tseed: 1\n", "line 6, column 1: a tab; YAML is indented by spaces only, replace the tab"),
        (JOB + "  seed: {\n", "correct the YAML there"),
        (JOB + "  seed: [1\n", "correct the YAML there"),
        (JOB + "  seed: !!python/object/apply:os.system [echo]\n", "could not determine a constructor"),
        (JOB + "  seed: *nobody\n", "found undefined alias"),
        ("a: &a [*a]\n", "a value that contains itself"),
        (LAUGHS, "holds more than 100000 values"),
        ("[" * 20000 + "\n", "is nested too deeply"),
        ("a: \x00\n", "holds a character that is not text"),
        ("a: 0x\n- b", "correct the YAML there"),
    ],
)  # fmt: skip
def test_text_that_is_no_job_is_refused_with_a_message(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    (error,) = refusal(path)
    assert expected in str(error)
    assert "\n" not in str(error)


def test_keys_written_twice_are_mistakes_beside_the_others() -> None:
    text = JOB + "  scaling:\n    minActors: 2\n    minActors: 4\n  seed: -1\n  seed: -1\n"
    found = {error.path: error.message for error in refusal(text)}
    assert found["spec.scaling.minActors"] == "is written twice, in lines 7 and 8; remove one"
    assert [error.path for error in refusal(text)].count("spec.seed") == 2


def test_unreadable_files_are_refused_with_a_message(tmp_path: Path) -> None:
    assert "does not exist; check the path" in str(refusal(tmp_path / "none.yaml")[0])
    assert "is a folder; name the file in it" in str(refusal(tmp_path)[0])
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), 1 << 33)
    assert "is larger than 1 MiB" in str(refusal(huge)[0])
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\xfe")
    assert "is not UTF-8 text (byte 3); save it as UTF-8" in str(refusal(tmp_path / "binary.yaml")[0])


def test_a_job_is_read_from_path_text_and_object(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("\ufeff---\n" + JOB + "---\n# no more\n")
    job = load_job(path)
    assert job == load_job(str(path)) == load_job(JOB) == load_job(yaml.safe_load(JOB))


def test_values_are_read_as_kubectl_reads_them() -> None:
    job = load_job(
        JOB,
        ["spec.environment.kwargs={a: 3e-4, b: 1:30, c: 2026-01-01, d: 3.0, e: yes, f: 1e3, g: 0o7}"],
    )
    assert job.spec.environment.kwargs == {
        "a": 3e-4, "b": "1:30", "c": "2026-01-01", "d": 3, "e": True, "f": 1000, "g": 7,
    }  # fmt: skip
    assert isinstance(load_job(JOB, ["spec.stop.rounds=1e3"]).spec.stop.rounds, int)
    assert load_job(JOB, ["spec.algorithm.hyperparameters.learningRate=1e-4"])


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 5000, "0x_"])
def test_an_integer_without_a_value_is_text(number: str) -> None:
    (error,) = refusal(JOB, f"spec.seed={number}")
    assert (error.path, error.value) == ("spec.seed", number)


def test_anchors_and_merges_work() -> None:
    text = JOB + "  learner:\n    resources: &r {limits: {cpu: 1}}\n  actor: {resources: {<<: *r}}\n"
    assert load_job(text).spec.actor.resources.limits == {"cpu": 1}


def test_overrides_set_and_remove_fields_and_leave_the_source_alone() -> None:
    data = yaml.safe_load(JOB)
    job = load_job(
        data,
        ["spec.seed=3", "spec.stop.rounds=7", "spec.scaling.schedule=[1, 2]", "spec.scaling.schedule=null"],
    )
    assert (job.spec.seed, job.spec.stop.rounds, job.spec.scaling.schedule) == (3, 7, None)
    assert data == yaml.safe_load(JOB)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("spec.seed", "must be path=value, such as spec.seed=3; correct the override"),
        ("=3", "must be path=value"),
        ("spec..seed=3", "must be path=value"),
        ("spec.seed=[", "must be a YAML value"),
        ("kind.seed=3", "has no fields, so kind.seed cannot be set there"),
        ("seed=3", "is not a field of the job; did you mean spec.seed?"),
        (
            "spec.environment.name=Hopper-v5",
            "is not a field of spec.environment; remove it, or",
        ),
    ],
)
def test_wrong_overrides_are_mistakes_like_others(override: str, expected: str) -> None:
    assert any(expected in str(error) for error in refusal(JOB, override))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_valid(path: Path) -> None:
    assert isinstance(load_job(path).spec, GivenSpec)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "scaler", "schedule", "limits", "type", "x"]), children, max_size=3
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "environment",
    "scaling",
    "backend",
    "learner",
    "actor",
    "stop",
    "network",
    "seed",
    "algorithm",
    "pricing",
]


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), VALUES)
def test_any_object_is_a_job_or_is_refused(spec: dict[str, Any], metadata: Any) -> None:
    data = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": metadata,
        "spec": spec,
    }
    try:
        load_job(data)
        errors = []
    except JobInvalid as invalid:
        errors = [str(error) for error in invalid.errors]
    assert len(set(errors)) == len(errors)


@given(st.text(max_size=60))
def test_any_text_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(JobInvalid):
        load_job(text + "\n")


def test_any_text_is_applied_as_it_is() -> None:
    """As the API server reads it: JSON in the syntax of YAML."""
    text = '\u0000\u001f\u007f\u0085\u202e\ufeff\uffff\U0001f600"\\\n# x: y'
    written = yamlfile.to_yaml({"status": {"message": text, "none": None, "count": 1e21}})
    assert yaml.safe_load(written)["status"]["message"] == text
    assert json.loads(written)["status"] == {"message": text, "none": None, "count": 1e21}


def test_a_job_with_keys_that_yaml_takes_for_truth_values_is_written_so_that_it_can_be_read() -> None:
    """mpe2's number of agents is called N."""
    kwargs = {"N": 3, "y": "n", "on": "yes", "plain": "text"}
    job = load_job(yaml.safe_load(JOB) | {"spec": {"environment": {"id": "Own-v0", "kwargs": kwargs}}})
    assert load_job(job.to_yaml()).spec.environment.kwargs == kwargs
