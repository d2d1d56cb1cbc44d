"""A thousand random jobs: the API server accepts exactly those that `load_job` accepts."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from apiserver import ApiServer, KubectlError
from nitro_api import JobInvalid, load_job
from nitro_api.rules import agents_rules, cache_rules, network_rules, payload_rules
from nitro_api.schema import crd
from nitro_api.spec.free_json import PRESERVE
from nitro_operator.kube.kinds import TRAINING_JOB

JOBS = 1000
SPEC = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
TEXTS = {
    "environment.id": ["Hopper-v5", "ALE/Pong-v5", "mine:Game-v0", "mpe2/simple_tag_v3", "two words", ""],
    "environment.entryPoint": ["mine.games:Chess", "mine", "a:b.c"],
    "algorithm.policies.agents": ["adversary_*", "agent_?", "agent_0", "a b", ""],
    "scaling.entryPoint": ["mine.scalers:Grow", "mine.scalers:Grow", "mine"],
    "stop.duration": ["90m", "2h30m", "0s", "soon", "1d"],
    "learner.checkpoint.pvc.size": ["1Gi", "0", "-1Gi", "much"],
    "learner.checkpoint.s3.bucket": ["runs", "Runs", "a"],
    "learner.checkpoint.s3.endpointUrl": ["https://s3.example.com", "s3.example.com"],
}
KEYS = ["a", "b.c", "D_e", "example.com/a", "a b"]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "gpu"]
PLAIN = ["a", "nitro", "b-1", "c.d", "NoSchedule", "", "two words", "x" * 300]
AMOUNTS = [1, 2.0, "500m", "2Gi", "-1", 0.5, "much", None, True]
ODD = [
    None,
    True,
    0,
    -1,
    2.0,
    2.5,
    -0.0,
    1e20,
    1e308,
    10**18,
    2**63,
    "",
    "7",
    "true",
    [],
    {},
    [None],
    {"a": None},
]


class Draw:
    """Draws jobs from the CRD's schema: most fields absent, most of the others right."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def job(self) -> dict[str, Any]:
        name = self.random.choice(["random"] * 30 + ["Random", "r" * 41, "1st"])
        self.odds = self.random.choice([0.0, 0.01, 0.05])
        spec = self.value(SPEC, "")
        if self.random.random() < 0.95 and isinstance(spec, dict):
            spec["environment"] = {"id": "Hopper-v5", **_mapping(spec.get("environment"))}
        return {
            "apiVersion": "nitro.dev/v1alpha1",
            "kind": "NitroTrainingJob",
            "metadata": {"name": name},
            "spec": spec,
        }

    def value(self, schema: dict[str, Any], path: str) -> Any:
        if self.random.random() < self.odds:
            return self.random.choice(ODD)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "x-kubernetes-int-or-string" in schema:
            return self.random.choice(AMOUNTS)
        kind = schema.get("type")
        if kind == "object":
            return self.mapping(schema, path)
        if kind == "array":
            low = schema.get("minItems", 0)
            return [self.value(schema["items"], path) for _ in range(self.random.randint(low, low + 2))]
        if kind == "string":
            return self.random.choice(TEXTS.get(path, PLAIN))
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind in ("integer", "number"):
            return self.number(schema)
        assert PRESERVE in schema, path
        return self.json(self.random.randint(0, 9))

    def mapping(self, schema: dict[str, Any], path: str) -> dict[str, Any]:
        if "properties" not in schema:
            of_resources = path.endswith((".requests", ".limits"))
            names = self.random.sample(RESOURCES if of_resources else KEYS, self.random.randint(0, 2))
            below = schema.get("additionalProperties", {PRESERVE: True})
            return {name: self.value(below, f"{path}.{name}") for name in names}
        required = schema.get("required", ())
        chosen = {
            name: self.value(below, f"{path}.{name}".lstrip("."))
            for name, below in schema["properties"].items()
            if self.random.random() < (1 - self.odds if name in required else 0.17)
        }
        if self.random.random() < self.odds / 2:
            chosen["unknown"] = 1
        return chosen

    def number(self, schema: dict[str, Any]) -> Any:
        low, high = schema.get("minimum", -1000), schema.get("maximum", 1000)
        choices = [
            low,
            high,
            float(low),
            float(high),
            self.random.randint(int(low), int(min(high, low + 50))),
        ]
        choices.append(float(choices[-1]))
        if schema["type"] == "number":
            choices += [self.random.uniform(low, high)] * 4
        if self.random.random() < self.odds:
            choices = [low - 1, high + 1, low - 0.5]
        return self.random.choice(choices)

    def json(self, levels: int) -> Any:
        if not levels:
            odd = self.random.choice(ODD)
            # kubectl leaves a mapping's null out. The API server counts it where nothing may be inside.
            return {} if odd == {"a": None} else odd
        below = self.json(levels - 1)
        return self.random.choice([[below], {"a": below, "b": 1}, [1, below]])


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def accepted_by_the_api_server(apiserver: ApiServer, path: str, job: Any) -> tuple[bool, str]:
    try:
        apiserver.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", job)
    except KubectlError as error:
        if "expected int, got float64" in str(error):
            # The schema takes 2.0 for an integer, a rule that reads it does not. kubectl sends 2 for it.
            return accepted_by_the_api_server(apiserver, path, as_kubectl_sends(job))
        return False, str(error)
    return True, ""


def as_kubectl_sends(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_kubectl_sends(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_kubectl_sends(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def test_the_api_server_and_load_job_accept_the_same_jobs(
    apiserver: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What only a job with all its defaults shows is no matter of the schema.
    for rules in (agents_rules, cache_rules, network_rules, payload_rules):
        monkeypatch.setattr(rules, "mistakes", lambda _: [])
    draw = Draw(20261123)
    different, accepted = [], 0
    for _ in range(JOBS):
        job = draw.job()
        stored, answer = accepted_by_the_api_server(apiserver, TRAINING_JOB.path(namespace), job)
        try:
            load_job(job)
            told = ""
        except JobInvalid as invalid:
            told = str(invalid)
        accepted += stored
        if stored == bool(told):
            different.append(f"{json.dumps(job['spec'])}\n  API server: {answer}\n  load_job: {told}")
    assert not different, f"{len(different)} of {JOBS}:\n" + "\n".join(different[:10])
    assert JOBS / 10 < accepted < JOBS * 9 / 10, f"both kinds are drawn, {accepted} right ones"
