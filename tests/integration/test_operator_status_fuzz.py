"""A status may hold whatever the API server takes: the operator and its metrics survive all of it."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from apiserver import ApiServer
from cluster_support import Cluster
from nitro_api.schema import crd
from nitro_operator.kube.kinds import TRAINING_JOB
from operator_support import Object, OperatorProcess, eventually, install_knative, job

PATCHES = int(os.environ.get("NITRO_FUZZ_PATCHES", "400"))
"""The API server takes about 45 ms of a core for each, so 10,000 are for a run of their own."""
RESTARTS = 4
PAUSED = [f"paused-{number}" for number in range(6)]
TENANTS = ["target", "dated", *PAUSED]
"""Jobs whose statuses are written, each by a thread of its own: two would get into each other's way."""
LIMIT = 24
# The bounds of the schema, what is just within and just without, and what no schema had before.
NUMBERS: list[Any] = [
    0, 1, 3, 0.5, 5e-324, 10**6, 10**9, 1e12, 2**53 - 1, 1e100, -1e100, None,
    -1, 10**6 + 1, 2**53, 1e101, 1e308, -1e308, 1e21, 2**63 - 1, 2**64,
]  # fmt: skip
TIMES: list[Any] = [
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00-24:00",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1000-01-01T00:00:00+14:59",
    "2999-12-31T23:59:59.999999999-14:59",
    "9999-12-31T23:59:59-23:59",
    "2026-01-01T00:00:00.123456789123456789Z",
    "2026-01-01T00:00:00",
    "2026-01-01T23:59:60Z",
    "2026-12-31T24:00:00Z",
    "2026-01-01t00:00:00z",
    "2026-02-30T00:00:00Z",
    None,
]
TEXTS: list[Any] = [
    "",
    "Running",
    "ActorsSilent",
    "\u0000\u202e\U0001f600",
    '"}\n# HELP x',
    "x" * 1024,
    "x" * 32_768,
    None,
]
CONDITIONS: list[Any] = [
    [],
    [{"type": kind, "status": "True"} for kind in ("Complete", "Failed", "Ready")],
    [
        {
            "type": "Failed",
            "status": "Unknown",
            "reason": "",
            "lastTransitionTime": "2026-01-01T00:00:00+99:99",
        }
    ],
    [{"type": "\U0001f600", "status": "False", "message": "x" * 32_768, "observedGeneration": 10**18}],
    [{"type": f"T{n}", "status": "True"} for n in range(16)],
    None,
]
HISTORIES: list[Any] = [
    [],
    [{"round": 10**9, "actors": 10**6, "score": 1, "cost": 1e12, "rewardMean": -1e100}],
    [{"round": 0, "actors": 0, "score": 5e-324, "evaluationMean": 1e100}] * 60,
    [{"round": 10**18, "actors": 10**18, "score": 1e308, "cost": 1e308, "rewardMean": -1e308}],
    [{"round": 1e308, "actors": 1e308}] * 60,
    None,
]
FIELDS: dict[tuple[str, ...], list[Any]] = {
    ("phase",): ["Pending", "Running", "Succeeded", "Failed", None],
    ("conditions",): CONDITIONS,
    ("observedGeneration",): NUMBERS,
    ("startTime",): TIMES,
    ("completionTime",): TIMES,
    ("training",): [{}, None],
    ("actors",): [{}, None],
    ("training", "state"): ["Running", "Succeeded", "Failed", None],
    ("training", "history"): HISTORIES,
    **{("training", name): TEXTS for name in ("reason", "message")},
    **{("training", name): TIMES for name in ("requestedAt", "updatedAt")},
    **{
        ("training", name): NUMBERS
        for name in (
            "round", "envSteps", "rewardMean", "rewardBest", "evaluationMean", "boostingScore",
            "convexityRatio", "requestedActors", "weightsVersion", "busySeconds",
        )
    },
    **{
        ("actors", name): NUMBERS
        for name in (
            "requested", "granted", "ready", "podSeconds", "provisioned", "started", "starting", "draining",
            "idlePercent", "startSeconds", "drainSeconds", "podVCPU",
        )
    },
    ("actors", "vcpuSeconds"): [{}, None],
    **{
        ("actors", "vcpuSeconds", name): NUMBERS
        for name in ("awake", "asleep", "starting", "draining")
    },
    **{
        ("cost", name): NUMBERS
        for name in ("learner", "actors", "total", "estimated", "podSeconds", "vcpuSeconds")
    },
    ("progress", "percent"): NUMBERS,
    ("checkpoint", "round"): NUMBERS,
    ("checkpoint", "location"): TEXTS,
    ("checkpoint", "savedAt"): TIMES,
}  # fmt: skip


class Tenant:
    """Writes statuses as a learner may: by the subresource, as a merge patch."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        content = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/merge-patch+json"}
        self._http = urllib3.PoolManager(
            ca_certs=str(server.ca), headers=content, timeout=60.0, maxsize=len(TENANTS), block=True
        )
        self._url = server.url
        self._namespace = namespace

    def accepted(self, name: str, status: Object) -> bool:
        """Whether the API server takes a patch of the status."""
        path = TRAINING_JOB.path(self._namespace, name, "status")
        answer = self._http.request("PATCH", f"{self._url}{path}", json={"status": status})
        assert answer.status in (200, 400, 422), answer.data
        return answer.status == 200


def taken_values(tenant: Tenant) -> dict[tuple[str, ...], list[Any]]:
    """The values of FIELDS that the API server takes. It is asked once about fields of one schema."""
    schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    taken: dict[tuple[str, int], list[Any]] = {}
    found = {}
    for path, values in FIELDS.items():
        of_field = schema
        for name in path:
            of_field = of_field["properties"][name]
        key = json.dumps({**of_field, "description": ""}, sort_keys=True), id(values)
        if key not in taken:
            taken[key] = [one for one in values if tenant.accepted(PAUSED[0], patch_of({path: one}))]
        found[path] = taken[key]
    return found


def patch_of(values: dict[tuple[str, ...], Any]) -> Object:
    found: Object = {}
    for path, value in values.items():
        inner = found
        for name in path[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[path[-1]] = value
    return found


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str) -> Cluster:
    install_knative(apiserver)
    return Cluster(apiserver, namespace)


@pytest.fixture
def operator(apiserver: ApiServer, tmp_path: Path) -> Iterator[OperatorProcess]:
    log = tmp_path / "operator.log"
    with OperatorProcess(apiserver.kubeconfig, log, NITRO_PLATFORM_MAX_ACTORS=str(LIMIT)) as process:
        yield process


def value(metrics: str, name: str, job_name: str) -> float | None:
    lines = (line for line in metrics.splitlines() if line.startswith(f'{name}{{job_name="{job_name}"'))
    return next((float(line.split()[-1]) for line in lines), None)


def running(cluster: Cluster, name: str, **spec: object) -> None:
    cluster.apply(job(name, **spec))
    cluster.start_learner(name)
    cluster.start_knative(name)
    eventually(lambda: cluster.status(name)["phase"] == "Running", what="phase Running")


@pytest.mark.slow
def test_random_statuses_harm_neither_the_jobs_nor_the_metrics(
    apiserver: ApiServer, cluster: Cluster, operator: OperatorProcess
) -> None:
    # Without holding, scales follow requests downwards too, whatever the storm leaves.
    scaling = {"scaler": "nitro", "minActors": 4, "initialActors": 4, "maxActors": 8, "hold": 0}
    running(cluster, "other", scaling=scaling)
    running(cluster, "target", scaling=scaling)
    cluster.apply(job("dated", activeDeadlineSeconds=10**6, ttlSecondsAfterFinished=10**6, scaling=scaling))
    cluster.start_learner("dated")
    for name in PAUSED:
        cluster.apply(job(name, suspend=True, ttlSecondsAfterFinished=10**6))
    tenant = Tenant(apiserver, cluster.namespace)
    taken = taken_values(tenant)
    assert all(taken.values()), taken
    accepted: Counter[str] = Counter()

    def storm(name: str) -> None:
        draw = random.Random(name)
        while accepted[name] < PATCHES // len(TENANTS):
            paths = sorted(draw.sample(sorted(taken), draw.randint(1, 8)), key=len)
            accepted[name] += tenant.accepted(
                name, patch_of({path: draw.choice(taken[path]) for path in paths})
            )

    restarts = 0
    with ThreadPoolExecutor(len(TENANTS)) as pool:
        storms = [pool.submit(storm, name) for name in TENANTS]
        while not all(each.done() for each in storms):
            metrics = eventually(operator.metrics)
            assert value(metrics, "nitro_job_status_phase", "other") == 1, operator.log()[-3000:]
            assert value(metrics, "nitro_job_status_invalid", "other") == 0
            assert value(metrics, "nitro_job_status_actors_granted", "other") == 4
            if accepted.total() > PATCHES * (restarts + 1) / (RESTARTS + 1):
                restarts += 1  # what is read at a start is read as well
                operator.kill()
                operator.start()
        for each in storms:
            each.result()
    assert restarts

    # All are looked after as before.
    cluster.report("other", round=1, requestedActors=8, boostingScore=0.5)
    eventually(lambda: cluster.scale("other") == ("8", "8"), what="another job's scale")
    good = {"round": 1, "requestedActors": 6, "boostingScore": 0.5, "history": None, "reason": None}
    assert tenant.accepted("target", {"training": {**good, "updatedAt": "2026-01-01T00:00:00Z"}})
    eventually(lambda: cluster.scale("target") == ("6", "6"), what="the job's own scale")
    eventually(lambda: cluster.status("target")["phase"] == "Running")
    ended = ("Suspended", "Succeeded", "Failed")
    for name in PAUSED:
        # A condition that says so ends a job that has no learner: its tenant may, and harms nobody else.
        eventually(lambda name=name: cluster.status(name)["phase"] in ended)
    eventually(lambda: cluster.status("dated")["phase"] == "Running")
    log = operator.log()
    # A tenant that writes between the operator's two requests may cost one try, never several.
    errors = re.findall(r".*Traceback.*|.*\((?:[3-9]|\d\d+) in a row\).*", log)
    assert errors == []
    assert operator.get(operator.health_port, "/healthz")


@pytest.fixture
def unbounded(apiserver: ApiServer) -> Iterator[None]:
    """The status takes anything, as what was stored before the schema had bounds."""

    def loosen(schema: Any) -> None:
        schema["properties"]["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        rules = schema[
            "x-kubernetes-validations"
        ]  # one that reads the status names a field without a schema then
        schema["x-kubernetes-validations"] = [one for one in rules if ".status." not in one["rule"]]

    with apiserver.changed_schema(loosen):
        yield


@pytest.mark.usefixtures("unbounded")
def test_an_invalid_status_loses_only_its_own_series_and_is_counted(
    apiserver: ApiServer, cluster: Cluster, operator: OperatorProcess
) -> None:
    for name in ("odd", "even"):
        cluster.apply(job(name, suspend=True))
        cluster.report(name, round=3, rewardMean=1.5)
    eventually(lambda: value(operator.metrics(), "nitro_job_status_round", "odd") == 3)
    tenant = Tenant(apiserver, cluster.namespace)
    wrong = {"updatedAt": "2026-01-01T00:00:00+99:99", "history": [{"round": 1e308, "score": 7}]}
    eventually(lambda: tenant.accepted("odd", {"training": wrong}), what="a status without bounds is taken")
    eventually(lambda: value(operator.metrics(), "nitro_job_status_invalid", "odd") == 1)
    metrics = operator.metrics()
    assert value(metrics, "nitro_job_status_heartbeat_timestamp_seconds", "odd") is None
    assert value(metrics, "nitro_job_status_reward_mean", "odd") == 1.5
    assert value(metrics, "nitro_job_status_heartbeat_timestamp_seconds", "even") is not None
    assert value(metrics, "nitro_job_status_invalid", "even") == 0


def test_conditions_of_others_do_not_keep_the_operator_from_writing_its_own(
    cluster: Cluster, apiserver: ApiServer, operator: OperatorProcess
) -> None:
    cluster.apply(job("full", suspend=True))
    eventually(lambda: cluster.status("full")["phase"] == "Suspended")
    tenant = Tenant(apiserver, cluster.namespace)
    others = [{"type": f"T{n}", "status": "True"} for n in range(16)]
    assert tenant.accepted("full", {"conditions": others, "phase": "Running"})
    eventually(lambda: cluster.status("full")["phase"] == "Suspended")
    assert "Suspended" in {condition["type"] for condition in cluster.status("full")["conditions"]}
    assert "in a row" not in operator.log()
