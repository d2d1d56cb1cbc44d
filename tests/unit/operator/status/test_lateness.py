"""What `kubectl describe` says of actors that come too late."""

from __future__ import annotations

import pytest

from nitro_api.pools.holding import PodTimes
from nitro_api.spec.learner_status import TrainingStatus
from nitro_operator.status.lateness import lateness

TIMES = PodTimes(12, 30)


def training(*rounds: tuple[int, int | None]) -> TrainingStatus:
    history = [
        {"round": n, "actors": actors, "seconds": 4.0, **({} if ready is None else {"ready": ready})}
        for n, (actors, ready) in enumerate(rounds, start=1)
    ]
    return TrainingStatus.model_validate({"history": history})


def test_it_names_the_shares_the_times_and_what_to_do() -> None:
    found = lateness(training(*5 * [(10, 4)]), TIMES)
    assert found is not None
    assert found.reason == "ActorsLate"
    assert (
        "only 20 of the last 50 slots found a ready actor: a pod takes 12 s to start, and a round took 4 s"
        in (found.message)
    )
    for remedy in ("spec.scaling.hold", "spec.actor.perPod", "minActors", "Lambda"):
        assert remedy in found.message


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
    assert lateness(training(*rounds), TIMES) is None


def test_a_backend_without_pods_is_never_late() -> None:
    assert lateness(training(*9 * [(10, 0)]), None) is None
    assert lateness(None, TIMES) is None
