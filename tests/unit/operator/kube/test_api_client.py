"""The client of the API server: tries after failures, and what a refusal means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator.kube.client import Kube, _refusal
from nitro_operator.kube.kinds import TRAINING_JOB
from operator_objects import make_job
from reconcile_bench import GOING
from replicas_support import replicas

Object = dict[str, Any]


async def test_a_failing_api_server_is_replaced_by_another_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.0)
    with replicas(make_job()) as servers:
        configuration = Configuration()
        configuration.host = servers.url
        kube = Kube(ApiClient(configuration))
        for _ in range(5):
            assert await kube.get(TRAINING_JOB, "team", "hopper") == make_job()
        await kube.close()
        assert servers.connections == 3, "the ill one's, that of the last try, and one that is kept"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"message": GOING}, True),
        ({"message": "no", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}, True),
        ({"message": "no", "details": None}, False),
    ],
)
def test_a_terminating_namespace_is_distinguished_from_a_missing_right(told: Object, expected: bool) -> None:
    assert _refusal(403, json.dumps(told).encode()).namespace_terminating is expected
    assert not _refusal(409, json.dumps(told).encode()).namespace_terminating
