"""Scalers: section by section by hand, state, and how one is added."""

import math
from typing import Any

import pytest

from nitro_api.scaling import Scaling
from nitro_learner import scalers
from nitro_learner.scalers import Decision, RoundOutcome, Scaler

RANGE = {"min_actors": 8, "max_actors": 64, "initial_actors": 16, "decay": 0.96, "window": 6}


def make(seed: int = 0, **settings: Any) -> Scaler:
    return scalers.make(Scaling.model_validate(RANGE | settings), seed)


def actors(scaler: Scaler, ratios: list[float | None]) -> list[int]:
    decisions = [scaler.decide(RoundOutcome(k, ratio, None, 8)) for k, ratio in enumerate(ratios, start=1)]
    return [decision.actors for decision in decisions]


def test_the_papers_test_vector() -> None:
    scaler = make()
    assert scaler.initial == 16
    assert actors(scaler, [2, 1, 3, 2]) == [61, 58, 8, 27]


def test_a_recorded_run_by_hand() -> None:
    ratios = [1.5, 0.7, 0.7, 2.4, 1.1, 0.9, 1.3, 3.0, 0.2, 1.0]
    expected = []
    for k, ratio in enumerate(ratios, start=1):
        window = ratios[max(0, k - 6) : k]
        quotient = (max(window) - ratio) / (max(window) - min(window)) if k > 1 else 1.0
        expected.append(min(64, max(8, math.floor(64 * quotient * 0.96**k))))
    assert actors(make(), list(ratios)) == expected


def test_the_window_forgets() -> None:
    scaler = make(window=2, decay=1.0)
    assert actors(scaler, [100, 1, 2, 1.5]) == [64, 64, 8, 64]


def test_without_a_ratio_the_score_is_zero_and_the_window_stays() -> None:
    scaler = make(decay=1.0)
    assert actors(scaler, [2, 1, None, 1.5]) == [64, 64, 8, 32]
    assert scaler.decide(RoundOutcome(5, None, None, 8)) == Decision(8, 0.0)
    assert make().decide(RoundOutcome(1, None, None, 16)) == Decision(8, 0.0)


def test_equal_ratios_score_one_half() -> None:
    assert actors(make(decay=1.0), [2, 2, 2 + 1e-10]) == [64, 32, 32]
    assert actors(make(decay=1.0), [1e6, 1e6]) == [64, 32]


def test_logarithmic_normalisation() -> None:
    assert actors(make(decay=1.0, normalise="log"), [1, 100, 10, 1000]) == [64, 8, 32, 8]
    assert actors(make(decay=1.0), [1, 100, 10]) == [64, 8, math.floor(64 * 90 / 99)]


def test_scores_are_reported_and_fade() -> None:
    scaler = make()
    first = scaler.decide(RoundOutcome(1, 2.0, None, 16))
    assert first.score == pytest.approx(0.96)
    late = make().decide(RoundOutcome(51, 2.0, None, 16))
    assert late.actors == 8  # 64 * 0.96^51 = 7.98


def test_artifact_mode_by_hand() -> None:
    """R d^k is compared with a window that also holds R; large ones boost; the floor falls as d^(k^2)."""
    d = 0.96
    ratios = [2.0, 1.0, 3.0, 2.0, 5.0, 0.5, 0.6, 0.55, 0.58]
    window: list[float] = []
    expected = []
    for k, ratio in enumerate(ratios, start=1):
        window.append(ratio * d**k)
        recent = window[-6:]
        score = (recent[-1] - min(recent)) / (max(recent) - min(recent)) if len(recent) > 1 else 1.0
        window.append(ratio)
        floor = int(min(64, max(8, 64 * d ** (k * k))))
        expected.append(int(min(64, max(floor, 64 * score))))
    assert actors(make(mode="artifact"), list(ratios)) == expected
    assert expected[:4] == [64, 54, 64, 33]


def test_artifact_mode_without_a_ratio_keeps_the_floor() -> None:
    assert actors(make(mode="artifact"), [None, None]) == [61, 54]


def test_fixed() -> None:
    scaler = make(scaler="fixed")
    assert not scaler.needs_ratio
    assert [scaler.initial, *actors(scaler, [None] * 3)] == [16] * 4


def test_schedule() -> None:
    scaler = make(scaler="schedule", schedule=[10, 20, 30], initial_actors=10)
    assert not scaler.needs_ratio
    assert [scaler.initial, *actors(scaler, [None] * 4)] == [10, 20, 30, 30, 30]


def test_random_score_draws_from_its_own_history() -> None:
    ratios = [2.0, 1.0, 3.0, 2.5, 0.5, 4.0, 1.2, 0.8]
    histories = []
    for seed in range(30):
        scaler = make(seed, scaler="random-score")
        assert scaler.needs_ratio
        actors(scaler, list(ratios))
        state = scaler.state_dict()
        assert state["history"] == ratios
        assert set(state["window"]) <= set(ratios)
        histories.append(tuple(state["window"]))
    assert len(set(histories)) > 20
    # The first draw has one choice; all else is the Nitro scaler on what was drawn.
    scaler = make(3, scaler="random-score", window=8)
    decided = actors(scaler, list(ratios))
    assert decided[0] == 61
    assert actors(make(window=8), scaler.state_dict()["window"]) == decided
    assert actors(make(4, scaler="random-score", decay=1.0), [1.0, None, 1.0])[1] == 8


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mode": "artifact"},
        {"normalise": "log"},
        {"scaler": "random-score"},
        {"scaler": "fixed"},
        {"scaler": "schedule", "schedule": [9, 14, 15], "initial_actors": 9},
    ],
    ids=str,
)
def test_state_goes_on_where_it_was(settings: dict[str, Any]) -> None:
    ratios: list[float | None] = [2.0, 1.0, None, 3.0, 2.5, 0.5, 4.0, 1.2, 0.8, 2.2]
    whole = make(**settings)
    expected = actors(whole, ratios)
    first = make(**settings)
    actors(first, ratios[:5])
    second = make(**settings)
    second.load_state_dict(first.state_dict())
    decisions = [second.decide(RoundOutcome(k, ratios[k - 1], None, 8)).actors for k in range(6, 11)]
    assert decisions == expected[5:]


def test_adding_a_scaler_is_a_class_and_its_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alternate(Scaler):
        """The fewest and the most actors in turn."""

        def decide(self, outcome: RoundOutcome) -> Decision:
            odd = outcome.round % 2
            return Decision(self.scaling.min_actors if odd else self.scaling.max_actors)

    monkeypatch.setitem(scalers.SCALERS, "alternate", Alternate)
    scaling = Scaling.model_validate(RANGE).model_copy(update={"scaler": "alternate"})
    scaler = scalers.make(scaling, seed=0)
    assert [scaler.initial, *actors(scaler, [None] * 4)] == [16, 8, 64, 8, 64]
    scaler.load_state_dict(scaler.state_dict())


def test_every_scaler_of_the_job_exists() -> None:
    names = Scaling.model_fields["scaler"].annotation
    assert set(scalers.SCALERS) == set(names.__args__)
