"""Fields that differ from what the operator set."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.builders import redis_service
from nitro_operator.kube.kinds import SERVICE, TRAINING_JOB
from nitro_operator.reconcile.apply import drifted, projection
from operator_objects import UID, make_view


class TestDrift:
    def test_fields_added_by_the_server_are_no_drift(self) -> None:
        desired = redis_service(make_view())
        observed = {**desired, "status": {}, "spec": {**desired["spec"], "clusterIP": "10.0.0.1"}}
        assert not drifted(desired, observed)

    @pytest.mark.parametrize(
        ("desired", "observed", "expected"),
        [
            ({"cpu": "1000m"}, {"cpu": "1"}, False),
            ({"memory": "1Gi"}, {"memory": "1024Mi"}, False),
            ({"memory": "1Gi"}, {"memory": "1G"}, True),
            ([{"a": 1}], [{"a": 1, "b": 2}], False),
            ([{"a": 1}], [{"a": 1}, {"a": 2}], True),
            ({"a": {}}, {}, False),
            ({"a": True}, {}, True),
            ({"a": "x"}, None, True),
        ],
    )
    def test_drift_compares_the_fields_that_the_operator_sets(
        self, desired: Any, observed: Any, expected: bool
    ) -> None:
        assert drifted(desired, observed) is expected

    def test_the_projection_keeps_only_the_operators_fields(self) -> None:
        assert projection({"a": "1.0", "c": [{"d": 1}]}, {"a": "1", "b": 2, "c": [{"d": 1, "e": 2}]}) == {
            "a": "1",
            "c": [{"d": 1}],
        }
        assert SERVICE.path("n", "x") == "/api/v1/namespaces/n/services/x"
        assert UID in TRAINING_JOB.path("n", UID, "status")
