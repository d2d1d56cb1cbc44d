"""What a scaler fixes in advance of later requests, checked against the scalers themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner import scalers
from nitro_learner.scalers.base import RoundOutcome
from nitro_learner.scalers.marless import MarlessRandomScaler
from nitro_operator.scaling.demand import bounds
from operator_objects import make_view

RANGE = {"minActors": 4, "maxActors": 24}


@pytest.mark.parametrize(
    ("scaling", "round", "requested", "expected"),
    [
        ({"scaler": "fixed", "initialActors": 9}, 3, 9, (9, 9)),
        ({"scaler": "schedule", "schedule": [4, 20, 8, 6]}, 0, 4, (6, 20)),
        ({"scaler": "schedule", "schedule": [4, 20, 8, 6]}, 1, 20, (6, 8)),
        ({"scaler": "schedule", "schedule": [4, 20, 8, 6]}, 50, 6, (6, 6)),
        ({"scaler": "hydrozoa"}, 12, 8, (8, 24)),
        ({"scaler": "kungfu"}, 12, 8, (8, 24)),
        ({"scaler": "nitro", "decay": 0.5}, 0, 24, (4, 12)),
        ({"scaler": "nitro", "decay": 0.5}, 9, 4, (4, 4)),
        ({"scaler": "nitro", "decay": 0.5, "mode": "artifact"}, 9, 4, (4, 24)),
    ],
)
def test_bounds(scaling: dict[str, object], round: int, requested: int, expected: tuple[int, int]) -> None:
    spec = make_view(scaling={**({} if "schedule" in scaling else RANGE), **scaling}).spec
    assert bounds(spec, round, requested) == expected


def test_the_control_of_several_agents_has_no_decay() -> None:
    """`random-score` is then a MARLess scaler, whose requests do not fade."""
    view = make_view(
        environment={"id": "mpe2/simple_spread_v3"},
        algorithm={"name": "ippo"},
        scaling={"scaler": "random-score", **RANGE, "decay": 0.5},
    )
    assert bounds(view.spec, 9, 24) == (4, 24)
    assert isinstance(scalers.make(view.spec), MarlessRandomScaler)


@given(
    st.sampled_from(["nitro", "random-score", "hydrozoa", "fixed"]),
    st.lists(st.floats(0, 10), min_size=3, max_size=40),
    st.floats(0.5, 1),
)
def test_no_scaler_leaves_its_bounds(name: str, ratios: list[float], decay: float) -> None:
    spec = make_view(scaling={"scaler": name, **RANGE, "decay": decay}).spec
    scaler = scalers.make(spec)
    asked = [spec.scaling.initial_actors]
    for number, ratio in enumerate(ratios, start=1):
        outcome = RoundOutcome(round=number, actors=asked[-1], statistics={"convexity_ratio": ratio})
        asked.append(scaler.decide(outcome).actors)
    for round, requested in enumerate(asked[:-1]):
        fewest, most = bounds(spec, round, requested)
        assert all(fewest <= later <= most for later in asked[round + 1 :])
