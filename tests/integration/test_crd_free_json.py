"""Fields that take any JSON on a real API server: it refuses what `nitro validate` does, at the same path."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from apiserver import ApiServer, KubectlError
from nitro_api import JobInvalid, load_job
from nitro_api.spec.free_json import MAX_CHARACTERS, MAX_ENTRIES, MAX_KEYS, MAX_LEVELS

HEAD = '"apiVersion": "nitro.dev/v1alpha1", "kind": "NitroTrainingJob", "metadata": {"name": "deep"}'
ENVIRONMENT = '"environment": {"id": "A-v0"'
RLLIB = '"algorithm": {"name": "rllib/ppo"'
FIELDS = {
    "spec.environment.kwargs": f'{{{ENVIRONMENT}, "kwargs": {{"k": VALUE}}}}}}',
    "spec.algorithm.rllib": f'{{{ENVIRONMENT}}}, {RLLIB}, "rllib": {{"k": VALUE}}}}}}',
}

LEVELS = {"spec.environment.kwargs": MAX_LEVELS, "spec.algorithm.rllib": 6}


def nested(levels: int, kinds: str) -> str:
    """JSON within so many mappings (o) and lists (l)."""
    around = [('{"a": ', "}") if kinds[level % len(kinds)] == "o" else ("[", "]") for level in range(levels)]
    return "".join(begin for begin, _ in around) + "1" + "".join(end for _, end in reversed(around))


def job(field: str, value: str) -> str:
    return f'{{{HEAD}, "spec": {FIELDS[field].replace("VALUE", value)}}}'


def create(apiserver: ApiServer, text: str) -> str:
    """What kubectl says of the refused job; empty where it is accepted."""
    try:
        apiserver.kubectl("create", "--dry-run=server", "-f", "-", input=text)
    except KubectlError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kinds", ["o", "l", "ol"])
@pytest.mark.parametrize("field", FIELDS)
def test_deeper_json_is_refused_at_the_same_path(field: str, kinds: str, apiserver: ApiServer) -> None:
    most = LEVELS[field]
    for levels in (1, most - 2, most - 1):
        text = job(field, nested(levels, kinds))
        assert create(apiserver, text) == ""
        assert load_job(json.loads(text))
    for levels in (most, most + 1, 50):
        text = job(field, nested(levels, kinds))
        with pytest.raises(JobInvalid) as invalid:
            load_job(text + "\n")
        (error,) = invalid.value.errors
        assert error.path.startswith(field)
        refused = create(apiserver, text)
        assert re.search(rf"{re.escape(error.path)}: Too many: \d+: must have at most 0 items", refused)


@pytest.mark.parametrize("kinds", ["o", "l", "ol"])
def test_json_of_five_thousand_levels_is_refused_by_both(kinds: str, apiserver: ApiServer) -> None:
    text = job("spec.environment.kwargs", nested(5000, kinds))
    assert "must have at most 0 items" in create(apiserver, text)
    with pytest.raises(JobInvalid, match="is nested too deeply"):
        load_job(text + "\n")


@pytest.mark.parametrize(
    "value",
    ["x" * (MAX_CHARACTERS + 1), [0] * (MAX_ENTRIES + 1), {str(number): 0 for number in range(MAX_KEYS + 1)}],
    ids=["text", "list", "mapping"],
)
def test_larger_json_is_refused_at_the_same_path(value: Any, apiserver: ApiServer) -> None:
    text = job("spec.environment.kwargs", json.dumps([value]))
    with pytest.raises(JobInvalid) as invalid:
        load_job(text + "\n")
    assert [error.path for error in invalid.value.errors] == ["spec.environment.kwargs.k[0]"]
    assert "spec.environment.kwargs.k[0]: Too " in create(apiserver, text)


def test_a_change_deep_in_the_arguments_is_a_change(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl(
        "create", "-n", namespace, "-f", "-", input=job("spec.environment.kwargs", '{"a": [{"b": 1}]}')
    )
    changed = job("spec.environment.kwargs", '{"a": [{"b": 2}]}')
    with pytest.raises(KubectlError, match=r"spec\.environment: .*cannot change after creation"):
        apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=changed)
