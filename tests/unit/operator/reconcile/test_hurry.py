"""Which pods may end at once: going, and known to be idle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nitro_operator.reconcile.hurry import idle_pods
from operator_objects import Object, pod

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def going(asked: float, grace: float = 60, phase: str = "Running") -> Object:
    found = pod("actor", phase=phase)
    found["metadata"]["deletionTimestamp"] = at(asked + grace).isoformat()
    found["metadata"]["deletionGracePeriodSeconds"] = grace
    return found


@pytest.mark.parametrize(
    ("one", "requests", "now", "ended", "expected"),
    [
        pytest.param(going(0), (6, 9), 9, False, True, id="a whole round since"),
        pytest.param(going(0), (4, 9), 9, False, False, id="its address may have been known to that round"),
        pytest.param(going(0), (9,), 30, False, False, id="only one round is known"),
        pytest.param(going(0), (), 30, False, False, id="requests may outlast their round"),
        pytest.param(going(0), (), 1, True, True, id="the learner has ended"),
        pytest.param(pod("actor"), (6, 9), 9, True, False, id="it is not going"),
        pytest.param(going(0, phase="Succeeded"), (6, 9), 9, True, False, id="it has ended"),
        pytest.param(going(8, grace=1), (), 9, True, False, id="it ends anyway"),
    ],
)
def test_pods(one: Object, requests: tuple[float, ...], now: float, ended: bool, expected: bool) -> None:
    found = idle_pods([one], [at(moment) for moment in requests], at(now), ended=ended)
    assert found == ([one] if expected else [])
