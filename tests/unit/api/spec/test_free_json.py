"""Fields that take any JSON: how deep and large it may be, and that nothing deep raises."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from nitro_api import FieldError, JobInvalid, load_job, resolve
from nitro_api.spec.free_json import MAX_BYTES, MAX_CHARACTERS, MAX_ENTRIES, MAX_KEYS, MAX_LEVELS

SENTENCE = (
    "must be a single value, because at most 8 levels of mappings and lists are allowed here, "
    "the field itself the first; flatten it"
)


def job(**environment: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "deep"},
        "spec": {"environment": {"id": "Mine-v0", **environment}},
    }


def nested(levels: int, kinds: str) -> Any:
    """A value within so many mappings (o) and lists (l), the outermost named by the first letter."""
    value: Any = 1
    for level in reversed(range(levels)):
        value = {"a": value} if kinds[level % len(kinds)] == "o" else [value]
    return value


def mistakes(data: Any, *overrides: str) -> list[FieldError]:
    with pytest.raises(JobInvalid) as invalid:
        load_job(data, overrides)
    return invalid.value.errors


@pytest.mark.parametrize("kinds", ["o", "l", "ol", "lo"])
def test_json_of_eight_levels_is_taken_and_deeper_is_refused_at_the_ninth(kinds: str) -> None:
    kept = {"k": nested(MAX_LEVELS - 1, kinds)}
    assert load_job(job(kwargs=kept)).spec.environment.kwargs == kept
    (error,) = mistakes(job(kwargs={"k": nested(MAX_LEVELS, kinds)}))
    steps = [".a" if kinds[level % len(kinds)] == "o" else "[0]" for level in range(MAX_LEVELS - 1)]
    assert error.path == f"spec.environment.kwargs.k{''.join(steps)}"
    assert error.message == SENTENCE


def test_settings_of_rllib_have_six_levels() -> None:
    data = job() | {"spec": {"environment": {"id": "A-v0"}, "algorithm": {"name": "rllib/ppo"}}}
    data["spec"]["algorithm"]["rllib"] = {"model": nested(6, "o")}
    (error,) = mistakes(data)
    assert error.path == "spec.algorithm.rllib.model" + ".a" * 5
    data["spec"]["algorithm"]["rllib"] = {"model": nested(5, "o")}
    assert load_job(data)


def test_every_mistake_inside_is_found() -> None:
    kwargs = {
        "text": "x" * (MAX_CHARACTERS + 1),
        "list": [0] * (MAX_ENTRIES + 1),
        "map": {str(number): 0 for number in range(MAX_KEYS + 1)},
        "endless": [1.0, float("inf")],
        "deep": nested(MAX_LEVELS, "o"),
    }
    found = {
        error.path.removeprefix("spec.environment.kwargs."): error for error in mistakes(job(kwargs=kwargs))
    }
    assert set(found) == {"text", "list", "map", "endless[1]", "deep" + ".a" * (MAX_LEVELS - 1)}
    assert found["endless[1]"].message == "must be a finite number, because JSON has no other; change it"


@pytest.mark.parametrize("levels", [12, 60, 250, 100_000])
@pytest.mark.parametrize("place", ["spec.environment.kwargs.k", "spec.seed", "spec.nonsense", "status"])
def test_json_that_is_too_deep_is_refused_with_a_message(levels: int, place: str, tmp_path: Any) -> None:
    text = "[" * levels + "]" * levels
    errors = mistakes(job(), f"{place}={text}")
    assert all(error.message for error in errors)
    *parents, last = place.split(".")
    data = json.loads(json.dumps(job()))
    holder = data
    for name in parents:
        holder = holder.setdefault(name, {})
    holder[last] = "HERE"
    path = tmp_path / "job.json"
    path.write_text(json.dumps(data).replace('"HERE"', text))
    (error,) = mistakes(path)
    assert place in error.path or "is nested too deeply" in error.message
    assert len(str(error)) < 400


def test_an_object_that_is_too_deep_is_refused_with_a_message() -> None:
    value: Any = 1
    for _ in range(50_000):
        value = {"a": [value]}
    paths = sorted(error.path for error in mistakes(job(kwargs={"k": value}, entryPoint=value)))
    assert paths == ["spec.environment.entryPoint", "spec.environment.kwargs.k" + ".a[0]" * 3 + ".a"]
    while isinstance(value, dict):  # freeing it at once would take a deep recursion
        value = value["a"].pop()


def test_arguments_that_overflow_an_environment_variable_are_refused() -> None:
    def kwargs(size: int) -> dict[str, Any]:
        """Of so many bytes as JSON."""
        texts = ["x" * 30_000] * 4
        return {"k": [*texts, "x" * (size - len(json.dumps({"k": [*texts, ""]})))]}

    kept = resolve(load_job(job(kwargs=kwargs(MAX_BYTES))))
    variable = "NITRO_ENVIRONMENT=" + json.dumps(kept.spec.environment.to_actor(), sort_keys=True)
    subprocess.run(["/bin/true"], env=dict([variable.split("=", 1)]), check=True)
    (error,) = mistakes(job(kwargs=kwargs(MAX_BYTES + 1024)))
    assert error.path == "spec.environment.kwargs"
    assert "must be at most 124 KiB as JSON, and is 125" in error.message
