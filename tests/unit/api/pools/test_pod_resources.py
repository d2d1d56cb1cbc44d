"""What a pod takes from its node while its requests change."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api.pools.pod_resources import asleep, cpu_of, memory_of
from operator_objects import actor_pod


@pytest.mark.parametrize(
    ("spec", "allocated", "in_force", "cpu", "sleeps"),
    [
        pytest.param("200m", "200m", "200m", 0.225, False, id="awake"),
        pytest.param("1m", "1m", "1m", 0.026, True, id="asleep"),
        pytest.param("1m", "200m", "200m", 0.225, False, id="going to sleep"),
        pytest.param("1m", "1m", "200m", 0.225, False, id="not in force yet"),
        pytest.param("200m", "1m", "1m", 0.225, True, id="waking, or deferred"),
        pytest.param("200m", None, None, 0.225, False, id="no kubelet has seen it"),
        pytest.param("1m", None, None, 0.026, True, id="a kubelet that reports no resources"),
        pytest.param("0", "0", "0", 0.025, True, id="an actor without a request"),
        pytest.param("what?", None, None, 0.025, False, id="not a quantity"),
    ],
)
def test_the_larger_of_what_is_wanted_and_what_holds_counts(
    spec: str, allocated: str | None, in_force: str | None, cpu: float, sleeps: bool
) -> None:
    pod = actor_pod(cpu=spec, allocated=allocated, in_force=in_force)
    assert cpu_of(pod) == pytest.approx(cpu)
    assert asleep(pod) is sleeps
    assert memory_of(pod) == 512 * 2**20


def test_a_pod_of_another_shape_takes_nothing_and_is_awake() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"spec": {}, "status": {}},
        {"spec": {"containers": [{"name": "other"}]}},
    ]
    for pod in odd:
        assert (cpu_of(pod), memory_of(pod), asleep(pod)) == (0, 0, False)
