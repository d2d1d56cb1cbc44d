"""`nitro serve` says what it is: at its root, to Prometheus, and in OpenAPI's words."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import openapi_spec_validator
import pytest
from prometheus_client.parser import text_string_to_metric_families

import nitro_learner as nitro
from agents_jobs import job as agents_job
from nitro_learner.api.policy import TrainedPolicy
from prometheus_support import promtool
from serve_support import ask, served
from train_support import job as small_job
from untrained_runs import untrained

ATARI = {
    "environment": {"id": "ALE/SpaceInvaders-v5", "rolloutLength": 32, "envsPerActor": 2},
    "network": {"hiddenSizes": [8], "convLayers": [{"channels": 2, "kernel": 8, "stride": 8}]},
}
MEMORY = {"network": {"hiddenSizes": [8], "recurrent": {"hiddenSize": 3}}}
JOBS = {
    "hopper": small_job(),
    "memory": small_job(**MEMORY),
    "images": small_job(**ATARI),
    "agents": agents_job(),
}


@contextmanager
def serving(name: str, folder: Path) -> Iterator[tuple[str, TrainedPolicy]]:
    untrained(JOBS[name], folder)
    with served(folder) as url:
        yield url, nitro.load(folder)


def schema_of(document: Any, *path: str) -> dict[str, Any]:
    """The schema at a place of an OpenAPI document, with what it refers to."""
    found = document
    for part in path:
        found = found[part]
    return {**found, "components": document["components"]}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize("name", JOBS)
def test_openapi_describes_what_is_asked_and_answered(name: str, tmp_path: Path) -> None:
    with serving(name, tmp_path) as (url, policy):
        status, document = ask(url, path="/openapi.json")
        assert status == 200
        openapi_spec_validator.validate(document)
        act = ("paths", "/v1/act", "post")
        body = schema_of(document, *act, "requestBody", "content", "application/json", "schema")
        answer = schema_of(document, *act, "responses", "200", "content", "application/json", "schema")
        refusal = schema_of(document, *act, "responses", "400", "content", "application/json", "schema")

        def seen(*lead: int) -> Any:
            zeros = {
                agent: np.zeros((*lead, *policy.of(agent).observation["shape"]), int).tolist()
                for agent in policy.agents
            }
            return zeros if name == "agents" else zeros["agent"]

        for observation in (seen(), seen(1), seen(3)):
            asked: dict[str, Any] = {"observation": observation}
            for _ in range(2):  # of a policy with a memory the second request goes on
                assert valid(asked, body)
                status, found = ask(url, asked)
                assert status == 200
                assert valid(found, answer)
                asked = {"observation": observation, "deterministic": False}
                asked |= {"state": found["state"]} if "state" in found else {}
        for wrong in ({"observation": [[[[]]]]}, {"observation": seen(), "greedy": True}, {}):
            assert not valid(wrong, body)
            status, found = ask(url, wrong)
            assert status == 400
            assert valid(found, refusal)
        for path in ("/", "/v1/policy"):
            told = schema_of(document, "paths", path, "get", "responses", "200", "content")
            assert valid(
                ask(url, path=path)[1], schema_of(document, "components") | told["application/json"]["schema"]
            )


def test_the_root_says_what_this_is_and_every_path_is_described(tmp_path: Path) -> None:
    with serving("hopper", tmp_path) as (url, _):
        status, told = ask(url, path="/")
        assert status == 200
        assert told["service"] == "a policy for Hopper-v5, trained by Nitro"
        assert (told["environment"], told["round"]) == ("Hopper-v5", 1)
        _, document = ask(url, path="/openapi.json")
        there = {f"{method.upper()} {path}" for path, one in document["paths"].items() for method in one}
        assert there == set(told["requests"])
        for request in there:
            method, path = request.split()
            data = json.dumps({"observation": [0] * 11}).encode() if method == "POST" else None
            with urllib.request.urlopen(f"{url}{path}", data, timeout=60) as answer:
                kinds = document["paths"][path][method.lower()]["responses"]["200"]["content"]
                assert answer.headers.get_content_type() in kinds


def test_prometheus_counts_requests_and_observations(tmp_path: Path) -> None:
    with serving("hopper", tmp_path) as (url, _):
        assert ask(url, {"observation": [[0] * 11] * 5})[0] == 200
        assert ask(url, {"observation": [0]})[0] == 400
        assert ask(url, path="/nowhere")[0] == 404
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["nitro_serve_requests_total", "/v1/act", "200"] == 1
    assert samples["nitro_serve_requests_total", "/v1/act", "400"] == 1
    assert samples["nitro_serve_requests_total", "other", "404"] == 1
    assert samples["nitro_serve_observations_total",] == 5
    assert samples["nitro_serve_policy_round",] == 1
    assert samples["nitro_serve_request_seconds_count", "/v1/act"] == 2
    assert samples["process_resident_memory_bytes",] > 0


def test_promtool_finds_nothing_wrong_with_the_metrics_of_a_server(tmp_path: Path) -> None:
    with (
        serving("hopper", tmp_path) as (url, _),
        urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer,
    ):
        assert promtool("check", "metrics", stdin=answer.read().decode()) == ""
