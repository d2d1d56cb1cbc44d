"""What `kubectl describe` says of actors that come too late."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api.pools.holding import PodTimes
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.status.actor_problems import lateness
from operator_objects import make_view

TIMES = PodTimes(12, 30)
NITRO = {"scaler": "nitro", "minActors": 2, "maxActors": 16}


def training(*rounds: tuple[int, int | None], waves: float | None = None) -> TrainingStatus:
    history = [
        {
            "round": n,
            "actors": actors,
            "seconds": 4.0,
            **({} if ready is None else {"ready": ready}),
            **({} if waves is None else {"waves": waves}),
        }
        for n, (actors, ready) in enumerate(rounds, start=1)
    ]
    return TrainingStatus.model_validate({"history": history})


def late(
    report: TrainingStatus | None, times: PodTimes | None = TIMES, granted: int = 16, **spec: Any
) -> Problem | None:
    return lateness(report, times, make_view(**{"scaling": NITRO, **spec}).spec, granted)


def test_it_names_the_shares_the_times_and_what_to_do() -> None:
    found = late(training(*5 * [(10, 4)], waves=2.5))
    assert found is not None
    assert found.reason == "ActorsLate"
    assert (
        "only 20 of the last 50 slots found a ready actor: a pod takes 12 s to start, and a round took 4 s, "
        "its sampling 2.5 times as long as a rollout"
    ) in found.message
    for remedy in ("spec.scaling.hold: 60", "spec.actor.perPod", "minActors", "rolloutLength", "Lambda"):
        assert remedy in found.message


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ({"scaling": {**NITRO, "hold": 120}}, "scaling.hold"),
        ({"actor": {"perPod": 16}}, "perPod"),
        ({"scaling": {"scaler": "fixed", "initialActors": 10}}, "minActors"),
        ({"scaling": {**NITRO, "minActors": 10}}, "minActors"),
    ],
)
def test_no_remedy_is_named_that_the_job_has_or_that_does_not_fit_it(
    spec: dict[str, Any], missing: str
) -> None:
    found = late(training(*5 * [(10, 4)]), **spec)
    assert found is not None
    assert missing not in found.message
    assert "Lambda" in found.message


@pytest.mark.parametrize("waves", [0.9, 1.0, 1.9])
def test_rounds_that_sampled_in_one_wave_are_not_late(waves: float) -> None:
    """Actors that slept until the round began are awake a second later, and all of them sample at once."""
    assert late(training(*10 * [(16, 0)], waves=waves)) is None
    assert late(training(*10 * [(16, 0)], waves=2.0)) is not None
    assert late(training(*10 * [(16, 0)])) is not None, "an older learner does not say it"


def test_actors_that_were_never_granted_are_not_late() -> None:
    report = training(*10 * [(16, 4)], waves=4.0)
    assert late(report, granted=4) is None
    assert late(report, granted=16) is not None


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(4 * [(10, 0)], id="the first rounds"),
        pytest.param(10 * [(10, 5)], id="half of them"),
        pytest.param(20 * [(10, 0)] + 10 * [(10, 10)], id="long ago"),
        pytest.param(10 * [(10, None)], id="an older learner"),
        pytest.param([], id="nothing"),
    ],
)
def test_otherwise_nothing_is_said(rounds: list[tuple[int, int | None]]) -> None:
    assert late(training(*rounds)) is None


def test_a_backend_without_pods_is_never_late() -> None:
    assert late(training(*9 * [(10, 0)]), None) is None
    assert late(None) is None
