"""The status on a real API server: its limits, its two writers, and what was stored before it had limits."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apiserver import ApiServer, KubectlError
from nitro_api.schema import crd
from nitro_operator.kube.kinds import TRAINING_JOB

LEARNERS = {
    "training": {
        "state": "Running", "reason": "ActorsSilent", "message": "m" * 1000, "round": 3, "envSteps": 6144,
        "rewardMean": -123.4, "rewardBest": 3e38, "evaluationMean": 1.5, "boostingScore": 1,
        "convexityRatio": 1e38, "requestedActors": 4096, "requestedAt": "2026-11-20T12:00:00.123456Z",
        "weightsVersion": 3, "updatedAt": "2026-11-20T12:00:05.000000Z",
        "history": [{"round": 3, "rewardMean": 1.0, "score": 0.0, "actors": 12, "cost": 0.0}] * 60,
    },
    "cost": {"learner": 0.1, "actors": 0.02, "total": 0.12},
    "checkpoint": {"round": 3, "savedAt": "2026-11-20T12:00:00Z"},
}  # fmt: skip
"""What a learner of the release before reports."""


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": "Training", "message": "all well",
        "lastTransitionTime": "2026-11-20T12:00:00Z", "observedGeneration": 1,
    }  # fmt: skip


def job(name: str = "limits", group: str = "nitro.dev") -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": name},
        "spec": {"environment": {"id": "Hopper-v5"}},
    }


@pytest.fixture
def path(apiserver: ApiServer, namespace: str) -> str:
    """Of a job's status."""
    apiserver.request("POST", TRAINING_JOB.path(namespace), job())
    return f"{TRAINING_JOB.path(namespace)}/limits/status"


def test_the_report_of_a_running_learner_is_accepted(apiserver: ApiServer, path: str) -> None:
    stored = apiserver.request("PATCH", path, {"status": LEARNERS})["status"]
    assert {name: stored[name] for name in LEARNERS} == LEARNERS


WRONG: dict[str, list[Any]] = {
    "training.boostingScore": [1.01, -0.1, 1e308],
    "training.rewardMean": [1e308, -1e308],
    "training.convexityRatio": [1e308],
    "training.round": [-1, 10**10, 0.5],
    "training.envSteps": [-1, 2**53, 2**63 - 1],
    "training.requestedActors": [-1, 10**7],
    "training.weightsVersion": [-1, 10**10],
    "training.updatedAt": [
        "2026-11-20T12:00:00+99:99", "2026-02-30T12:00:00Z", "2026-11-20", "soon", "", "0000-01-01T00:00:00Z",
        "2026-11-20T25:00:00Z", "2026-11-20T12:00:00", "2026-11-20T12:00:60Z",
        "2026-11-20T12:00:00.0000000000Z",
    ],
    "training.requestedAt": ["2026-11-20T12:00:00+99:99"],
    "training.message": ["x" * 32_769],
    "training.reason": ["x" * 1025],
    "training.state": ["Done"],
    "training.history": [[{"round": 1}] * 61],
    "training.history[0].score": [[{"round": 1, "score": 2}]],
    "training.history[0].actors": [[{"round": 1, "actors": -1}]],
    "training.history[0].cost": [[{"round": 1, "cost": 1e13}]],
    "progress.percent": [-1, 100.5, 1e308],
    "progress.etaSeconds": [-1, 2**53],
    "cost.total": [-1, 1e308],
    "cost.learner": [-0.1],
    "policies": [[{"name": "agent_0"}] * 65],
    "policies[0].name": [[{"name": ""}], [{"name": "a" * 65}], [{}]],
    "policies[0].agents": [[{"name": "agent_0", "agents": ["agent_0"] * 65}]],
    "policies[0].agents[0]": [[{"name": "agent_0", "agents": [""]}]],
    "policies[0].rewardMean": [[{"name": "agent_0", "rewardMean": 1e308}]],
    "sharing.toggles": [-1, 2**53],
    "sharing.groups": [-1, 10**7],
    "sharing.shared": ["yes"],
    "sharing.message": ["x" * 32_769],
    "actors.ready": [-1, 10**7],
    "actors.podSeconds": [-1, 1e16],
    "actors.idlePercent": [-1, 101],
    "actors.startSeconds": [-1, 1e10],
    "checkpoint.savedAt": ["2026-11-20T12:00:00+99:99"],
    "startTime": ["2026-11-20T12:00:00+15:00"],
    "conditions": [[condition(str(number)) for number in range(17)]],
    "conditions[1]": [[condition("Ready"), condition("Ready", "False")]],
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
def test_a_status_beyond_its_limits_is_refused(field: str, apiserver: ApiServer, path: str) -> None:
    *parents, last = field.partition("[")[0].split(".")
    for value in WRONG[field]:
        status: Any = {last: value}
        for name in reversed(parents):
            status = {name: status}
        with pytest.raises(KubectlError, match="422") as refused:
            apiserver.request("PATCH", path, {"status": status})
        assert f"status.{field}" in str(refused.value), value


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_a_score_that_is_no_number_of_json_is_refused(value: str, apiserver: ApiServer, path: str) -> None:
    namespace = path.split("/namespaces/")[1].partition("/")[0]
    patch = f'{{"status": {{"training": {{"boostingScore": {value}}}}}}}'
    with pytest.raises(KubectlError):
        apiserver.kubectl(
            "patch", "ntj", "limits", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
        )


def apply_status(apiserver: ApiServer, manager: str, namespace: str, head: Any, status: Any) -> Any:
    """As the operator and the learner write it. Returns the status that there is then."""
    told = apiserver.kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "--subresource=status",
        "-n", namespace, "-o", "json", "-f", "-", input=json.dumps({**head, "status": status}),
    )  # fmt: skip
    return json.loads(told)["status"]


@pytest.mark.usefixtures("path")
def test_both_writers_apply_their_parts_of_the_status(apiserver: ApiServer, namespace: str) -> None:
    head = {key: job()[key] for key in ("apiVersion", "kind", "metadata")}

    def operator(**status: Any) -> Any:
        return apply_status(apiserver, "nitro-operator", namespace, head, status)

    first = [condition("Ready", "False"), condition("Complete", "False")]
    operator(phase="Starting", conditions=first, checkpoint={"location": "claim/run"})
    apply_status(apiserver, "nitro-learner", namespace, head, LEARNERS)
    second = [condition("Ready"), condition("Failed", "False")]
    status = operator(phase="Running", conditions=second, checkpoint={"location": "claim/run"})
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Ready": "True",
        "Failed": "False",
    }
    assert status["training"] == LEARNERS["training"]
    assert status["checkpoint"] == {"location": "claim/run", "round": 3, "savedAt": "2026-11-20T12:00:00Z"}


GROUP = "before.nitro.dev"


@pytest.fixture
def unlimited(apiserver: ApiServer) -> Iterator[str]:
    """The kind under another group, as it was before its status had limits; its name."""
    definition = of_group(limited=False)
    name = definition["metadata"]["name"]
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    apiserver.request("POST", definitions, definition)
    yield f"{definitions}/{name}"
    apiserver.request("DELETE", f"{definitions}/{name}")


def of_group(*, limited: bool) -> dict[str, Any]:
    definition = copy.deepcopy(crd.definition())
    definition["metadata"]["name"] = f"nitrotrainingjobs.{GROUP}"
    definition["spec"]["group"] = GROUP
    definition["spec"]["names"] = {"kind": "NitroTrainingJob", "plural": "nitrotrainingjobs"}
    version = definition["spec"]["versions"][0]
    if not limited:
        _lift(version["schema"]["openAPIV3Schema"]["properties"]["status"])
    return definition


def _lift(schema: dict[str, Any]) -> None:
    for limit in ("minimum", "maximum", "pattern", "maxLength", "maxItems", "enum", "format",
                  "x-kubernetes-list-type", "x-kubernetes-list-map-keys"):  # fmt: skip
        schema.pop(limit, None)
    for below in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        _lift(below)


BEYOND = {
    "phase": "Running",
    "conditions": [condition("Ready"), condition("Ready", "False"), condition("Complete", "False")],
    "training": {
        "boostingScore": 1e308, "round": -5, "updatedAt": "2026-11-20T12:00:00+99:99", "rewardMean": 1,
        "history": [{"round": 1, "score": 7}, {"round": -2}],
    },
    "cost": {"total": -1},
}  # fmt: skip


def test_a_job_stored_with_a_status_beyond_the_limits_can_still_be_changed(
    apiserver: ApiServer, namespace: str, unlimited: str
) -> None:
    """The API server tolerates what an update leaves as it was; Kubernetes 1.30 and newer do by default."""
    old = job("old", GROUP)
    head = {key: old[key] for key in ("apiVersion", "kind", "metadata")}
    jobs = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/nitrotrainingjobs"
    until(lambda: apiserver.request("POST", jobs, old))
    # The operator's and the learner's marks in managedFields are those of the old schema too.
    apply_status(apiserver, "nitro-operator", namespace, head,
                 {name: BEYOND[name] for name in ("phase", "conditions")})  # fmt: skip
    apply_status(apiserver, "nitro-learner", namespace, head,
                 {name: BEYOND[name] for name in ("training", "cost")})  # fmt: skip
    stored = apiserver.request("GET", unlimited)
    apiserver.request("PUT", unlimited, {**of_group(limited=True), "metadata": stored["metadata"]})
    worse = {"status": {"training": {"boostingScore": 1e307}}}
    until(lambda: refused(apiserver, f"{jobs}/old/status", worse))

    for change in (
        {"spec": {"suspend": True}},
        {"metadata": {"finalizers": ["nitro.dev/cleanup"], "labels": {"a": "b"}}},
        {"metadata": {"finalizers": None}},
    ):
        apiserver.request("PATCH", f"{jobs}/old", change)
    now = [condition(kind) for kind in ("Ready", "Complete", "Failed")]
    status = apply_status(
        apiserver, "nitro-operator", namespace, head, {"phase": "Suspended", "conditions": now}
    )
    assert [one["type"] for one in status["conditions"]] == ["Ready", "Complete", "Failed"]
    assert status["training"] == BEYOND["training"]
    status = apply_status(apiserver, "nitro-learner", namespace, head, LEARNERS)
    assert (status["training"], status["cost"]) == (LEARNERS["training"], LEARNERS["cost"])
    assert refused(apiserver, f"{jobs}/old/status", worse)
    apiserver.request("DELETE", f"{jobs}/old")
    assert apiserver.request("GET", f"{jobs}/old") is None


def refused(apiserver: ApiServer, path: str, body: Any) -> bool:
    try:
        apiserver.request("PATCH", f"{path}?dryRun=All", body)
    except KubectlError:
        return True
    raise KubectlError("not refused yet")


def until(action: Any) -> Any:
    """What the action returns once a changed kind is served."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return action()
        except KubectlError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
