"""The CRD on a real API server: it refuses what `nitro validate` refuses, and says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver import ApiServer, KubectlError
from nitro_api import JobInvalid, load_job, resolve, resolve_stored
from nitro_api.loading.job_file import apply_override
from nitro_api.rules.update_rules import (
    IMMUTABLE_SENTENCE,
    MENDABLE,
    MENDABLE_SENTENCE,
    immutable_fields,
)
from nitro_api.schema.crd import UNWRITTEN
from nitro_operator.builders import learner_job
from nitro_operator.kube.kinds import TRAINING_JOB
from operator_objects import make_view
from pod_settings_support import MENDED, UNUSUAL

ROOT = Path(__file__).parents[2]
WRONG = yaml.safe_load((ROOT / "tests/unit/api/loading/wrong_jobs.yaml").read_text())
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def job(*changes: str) -> dict[str, Any]:
    data = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "hopper"},
        "spec": {"environment": {"id": "Hopper-v5"}},
    }
    for change in changes:
        assert not apply_override(data, change)
    return data


def refusals(answer: str) -> dict[str, list[str]]:
    """What kubectl says of a refused job: sentences by path."""
    found: dict[str, list[str]] = {
        path: ["unknown field"] for path in re.findall(r'unknown field "([^"]+)"', answer)
    }
    for path, rest in re.findall(r"^(?:\* |.* is invalid: )([\w.\[\]]+): (.*)$", answer, re.MULTILINE):
        found.setdefault(path, []).append(rest)
    return found


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case["name"])
def test_kubectl_refuses_a_wrong_job_as_validate_does(case: dict[str, Any], apiserver: ApiServer) -> None:
    data = job(*case["set"])
    with pytest.raises(JobInvalid) as invalid:
        load_job(data)
    with pytest.raises(KubectlError) as refused:
        apiserver.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(data))
    said = refusals(str(refused.value))
    for path in [case["path"], *case.get("also", ())]:
        assert path in said, refused.value
        assert path in {error.path for error in invalid.value.errors}
    if sentence := case.get("sentence"):
        assert any(rest.endswith(f": {sentence}") for rest in said[case["path"]]), refused.value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_applies_and_validates(path: Path, apiserver: ApiServer, namespace: str) -> None:
    job = load_job(path, [f"metadata.namespace={namespace}"])
    apiserver.kubectl("apply", "-n", namespace, "-f", str(path))
    stored = apiserver.get("ntj", job.metadata.name, "-n", namespace)
    assert resolve(load_job(stored)).spec == resolve(job).spec


def test_the_resolved_job_applies_too(apiserver: ApiServer, namespace: str) -> None:
    resolved = resolve(load_job(job("spec.environment.kwargs={a: [1, null, {b: true}]}")))
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=resolved.to_yaml())
    stored = load_job(apiserver.get("ntj", "hopper", "-n", namespace))
    assert stored.to_dict()["spec"] == resolved.to_dict()["spec"]


def written(data: dict[str, Any]) -> dict[str, Any]:
    """The spec as the API server stores it: with all defaults that depend on nothing else, but those that it
    leaves to the programs."""
    spec = load_job(data).spec.to_dict()
    for path in UNWRITTEN:
        parent, name = path.split(".")
        if name not in data["spec"].get(parent, {}):
            del spec[parent][name]
    return spec


def test_defaults_appear_where_they_depend_on_nothing_else(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job()))
    spec = apiserver.get("ntj", "hopper", "-n", namespace)["spec"]
    assert spec == written(job())
    assert spec["scaling"]["normalise"] == "linear"
    assert spec["learner"]["checkpoint"] == {"everyRounds": 1, "keepLast": 3}
    assert "minActors" not in spec["scaling"]


def test_nulls_are_absent_fields(apiserver: ApiServer, namespace: str) -> None:
    data = job()
    data["spec"] |= {
        "seed": None,
        "stop": {"targetReward": None},
        "environment": {"id": "A-v0", "kwargs": {"a": None, "b": {"c": [None, {"d": None}]}}},
        "actor": {"resources": {"limits": {"memory": None}}},
    }
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(data))
    spec = apiserver.get("ntj", "hopper", "-n", namespace)["spec"]
    assert spec == written(data)
    assert spec["environment"]["kwargs"] == {"b": {"c": [None, {}]}}


def test_what_takes_any_json_keeps_nulls_at_every_level(apiserver: ApiServer, namespace: str) -> None:
    kwargs = {"a": None, "b": [None, [None, {"c": None}]], "d": {"e": None, "f": [None]}}
    data = job()
    data["spec"]["environment"]["kwargs"] = kwargs
    apiserver.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(data))
    assert apiserver.get("ntj", "hopper", "-n", namespace)["spec"]["environment"]["kwargs"] == kwargs


def test_the_api_server_keeps_a_null_among_rllib_s_settings(apiserver: ApiServer, namespace: str) -> None:
    """kubectl drops it unless it leaves the work to the server; then `nitro validate` warns."""
    data = job("spec.algorithm={name: rllib/appo, rllib: {grad_clip: null, lr: 0.1}}")
    apiserver.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", input=json.dumps(data))
    stored = apiserver.get("ntj", "hopper", "-n", namespace)
    assert stored["spec"]["algorithm"]["rllib"] == {"grad_clip": None, "lr": 0.1}
    assert resolve_stored(stored).spec == resolve(load_job(data)).spec
    removed = {"algorithm": {"rllib": {"grad_clip": None}}}  # null in a merge patch
    with pytest.raises(KubectlError, match=r"spec\.algorithm: .*cannot change after creation"):
        apiserver.request("PATCH", TRAINING_JOB.path(namespace, "hopper"), {"spec": removed})
    data["metadata"]["name"] = "dropped"
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(data))
    assert apiserver.get("ntj", "dropped", "-n", namespace)["spec"]["algorithm"]["rllib"] == {"lr": 0.1}


def test_values_are_read_as_kubectl_reads_them(apiserver: ApiServer, namespace: str) -> None:
    values = """3e-4 3.0 1e3 -.5 1. +1 1_000 0x1f 0b11 0o17 017 09 1:30 2026-01-01 yes off on True y N ~ null
        1e 0.1.2 'a' 00 -0 -0.0 1e+2 1e22 9007199254740993.0 12345678901234567890123 _1 0x 6.02e23"""
    text = yaml.safe_dump(job()) + f"    kwargs: {{v: [{', '.join(values.split())}]}}\n"
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=text)
    stored = apiserver.get("ntj", "hopper", "-n", namespace)["spec"]["environment"]["kwargs"]["v"]
    read = load_job(text).spec.environment.kwargs["v"]
    # JSON has one kind of number: the API server stores 3.0 as 3, and `nitro validate` says so.
    kinds = [int if isinstance(one, float) and one.is_integer() else type(one) for one in read]
    assert read == stored
    assert kinds == [int if isinstance(one, float) and one.is_integer() else type(one) for one in stored]


CHANGES = {
    "environment": "spec.environment.kwargs={a: 2}",
    "algorithm": "spec.algorithm.preset=paper",
    "code": f"spec.code='{'0' * 64}'",
    "sharing": "spec.sharing={mode: always}",
    "network": "spec.network.activation=relu",
    "seed": "spec.seed=1",
    "evaluation": "spec.evaluation.episodes=7",
    "scaling": "spec.scaling={hold: 60, maxActors: 32}",
    "backend": "spec.backend.type=Local",
    "cache": "spec.cache={memory: 2Gi}",
    "actor": "spec.actor.timeoutSeconds=61",
    "learner": "spec.learner.checkpoint.keepLast=4",
    "pricing": "spec.pricing.lambdaRequest=1",
    "resumeFrom": "spec.resumeFrom={job: other}",
}


@pytest.mark.parametrize("name", immutable_fields())
def test_changes_of_immutable_fields_are_refused(name: str, apiserver: ApiServer, namespace: str) -> None:
    created = "spec.environment.kwargs={a: 1}"
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job(created)))
    changed = json.dumps(job(created, CHANGES[name]))
    with pytest.raises(KubectlError) as refused:
        apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=changed)
    said = refusals(str(refused.value))
    assert list(said) == [f"spec.{name}"]
    assert any(sentence.endswith(f": {IMMUTABLE_SENTENCE}") for sentence in said[f"spec.{name}"])


@pytest.mark.parametrize("block", ["scaling", "algorithm"])
@pytest.mark.parametrize("change", ["settings={weight: 0.25}", "entryPoint=mine:Other"])
def test_code_of_ones_own_stays_as_it_was_made(
    block: str, change: str, apiserver: ApiServer, namespace: str
) -> None:
    change = f"spec.{block}.{change}"
    created = f"spec.{block}={{entryPoint: 'mine:Own', settings: {{weight: 0.5, waits: [1, 2]}}}}"
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job(created)))
    stored = apiserver.get("ntj", "hopper", "-n", namespace)["spec"][block]
    assert stored["settings"] == {"weight": 0.5, "waits": [1, 2]}
    longer = json.dumps(job(created, "spec.scaling.hold=60", "spec.stop.rounds=900"))
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=longer)
    with pytest.raises(KubectlError) as refused:
        apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job(created, change)))
    assert list(refusals(str(refused.value))) == [f"spec.{block}"]


def test_changes_of_mutable_fields_are_accepted(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job("spec.stop.rounds=10")))
    changes = (
        "spec.suspend=true",
        "spec.stop={rounds: 20, targetReward: 3000}",
        "spec.ttlSecondsAfterFinished=60",
        "spec.activeDeadlineSeconds=3600",
        "spec.scaling.hold=60",
        "spec.scaling.sleep=never",
    )
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job(*changes)))
    spec = apiserver.get("ntj", "hopper", "-n", namespace)["spec"]
    assert (spec["scaling"]["hold"], spec["scaling"]["sleep"]) == (60, "never")
    assert (spec["suspend"], spec["stop"]["rounds"], spec["activeDeadlineSeconds"]) == (True, 20, 3600)


def test_settings_of_pods_change_only_while_the_job_is_suspended(
    apiserver: ApiServer, namespace: str
) -> None:
    mended = {"actor": MENDED, "learner": {**MENDED, "backoffLimit": 9, "device": "cpu"}}
    assert {f"{part}.{name}" for part in mended for name in mended[part]} | {"tracking", "cache"} == set(
        MENDABLE
    )

    def patch(spec: dict[str, Any]) -> None:
        apiserver.request("PATCH", TRAINING_JOB.path(namespace, "hopper"), {"spec": spec})

    def refused(spec: dict[str, Any], path: str, sentence: str) -> None:
        with pytest.raises(KubectlError) as refusal:
            patch(spec)
        assert f"{path}: " in str(refusal.value)
        assert sentence in str(refusal.value)

    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job()))
    for part, settings in mended.items():
        for name in settings:
            needed = ("volumes", "volumeMounts") if name in ("volumes", "volumeMounts") else (name,)
            refused({part: {one: settings[one] for one in needed}}, f"spec.{part}", MENDABLE_SENTENCE)
    refused({"suspend": True, "actor": {"image": "mine:2"}}, "spec.actor", MENDABLE_SENTENCE)
    refused({"tracking": {"wandb": {}}}, "spec.tracking", MENDABLE_SENTENCE)
    refused({"cache": {"memory": "2Gi"}}, "spec.cache", MENDABLE_SENTENCE)
    patch({"suspend": True})
    patch({**mended, "tracking": {"wandb": {}}, "cache": {"resources": {"limits": {"memory": "4Gi"}}}})
    stored = apiserver.get("ntj", "hopper", "-n", namespace)
    assert stored["spec"] == written(stored), "the same defaults, here and there"
    assert all(stored["spec"][part].keys() >= settings.keys() for part, settings in mended.items())
    refused({"actor": {"perPod": 2}}, "spec.actor", IMMUTABLE_SENTENCE)
    refused({"learner": {"checkpoint": {"keepLast": 9}}}, "spec.learner", IMMUTABLE_SENTENCE)
    patch({"suspend": False, "actor": {"image": "mine:3"}})  # the last change may come with the resume
    refused({"actor": {"image": "mine:4"}}, "spec.actor", MENDABLE_SENTENCE)
    refused({"tracking": None}, "spec.tracking", MENDABLE_SENTENCE)


@pytest.mark.parametrize("settings", UNUSUAL, ids=str)
def test_the_api_server_takes_unusual_settings_in_a_job_and_in_its_pod(
    settings: dict[str, Any], apiserver: ApiServer, namespace: str
) -> None:
    data = job()
    data["spec"] |= {"actor": settings, "learner": settings}
    apiserver.kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(data))
    made = learner_job(make_view(learner=settings), None)
    made["metadata"] |= {"namespace": namespace, "ownerReferences": []}
    apiserver.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(made))


STATUS = {
    "phase": "Running",
    "scaler": "fixed",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Training", "message": "all well"}],
    "training": {"round": 3, "envSteps": 6144, "rewardMean": 123.4, "boostingScore": 0.5,
                 "requestedActors": 12, "requestedAt": "2026-11-20T12:00:00.123456Z",
                 "history": [{"round": 3, "actors": 12}]},
    "progress": {"percent": 30.5, "by": "rounds", "etaSeconds": 70},
    "actors": {"requested": 12, "granted": 12, "ready": 11, "podSeconds": 99.5, "idlePercent": 70},
    "cost": {"learner": 0.1, "actors": 0.02, "total": 0.12},
}  # fmt: skip


def test_status_is_a_subresource_and_the_columns_show_it(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps({**job(), "status": STATUS}))
    assert "status" not in apiserver.get("ntj", "hopper", "-n", namespace)
    patch = json.dumps({"status": STATUS})
    apiserver.kubectl(
        "patch", "ntj", "hopper", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )
    stored = load_job(apiserver.get("ntj", "hopper", "-n", namespace))
    assert stored.status is not None
    assert stored.status.to_dict() == {**STATUS, "conditions": stored.status.to_dict()["conditions"]}
    header, row = apiserver.kubectl("get", "ntj", "-n", namespace).splitlines()
    assert header.split() == [
        "NAME", "PHASE", "ROUND", "PROGRESS", "ETA", "REWARD", "SCORE", "ACTORS", "COST", "AGE",
    ]  # fmt: skip
    assert row.split()[:9] == ["hopper", "Running", "3", "30.5", "70", "123.4", "0.5", "11", "0.12"]
    wide = apiserver.kubectl("get", "ntj", "-n", namespace, "-o", "wide").splitlines()
    assert wide[0].split()[10:] == ["SCALER", "BACKEND", "ENV", "STEPS", "IDLE%"]
    assert wide[1].split()[10:] == ["fixed", "Knative", "Hopper-v5", "6144", "70"]


def test_the_environment_is_shown_by_its_entry_point_where_it_has_one(
    apiserver: ApiServer, namespace: str
) -> None:
    mine = {**job(), "spec": {"environment": {"entryPoint": "mine.games:Chess"}}}
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(mine))
    header, row = apiserver.kubectl("get", "ntj", "-n", namespace, "-o", "wide").splitlines()
    at = header.index("ENV")
    assert row[at:].split()[0] == "mine.games:Chess"


def test_two_writers_of_the_status_keep_each_others_fields(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job()))
    head = {key: job()[key] for key in ("apiVersion", "kind", "metadata")}
    for manager, status in (
        ("nitro-operator", {"phase": "Running", "conditions": STATUS["conditions"]}),
        ("nitro-learner", {"training": {"round": 4}}),
    ):
        apiserver.kubectl(
            "apply", "--server-side", f"--field-manager={manager}", "--subresource=status", "-n", namespace,
            "-f", "-", input=json.dumps({**head, "status": status}),
        )  # fmt: skip
    status = apiserver.get("ntj", "hopper", "-n", namespace)["status"]
    assert (status["phase"], status["training"]) == ("Running", {"round": 4})


def test_the_job_is_listed_under_all(apiserver: ApiServer, namespace: str) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(job()))
    assert "nitrotrainingjob.nitro.dev/hopper" in apiserver.kubectl(
        "get", "all", "-n", namespace, "-o", "name"
    )
