"""Nitro's scaler and its controls by hand, state, and how a scaler is added."""

import math
from typing import Any

import pytest

from nitro_api.spec.scaling import Scaling
from nitro_learner import scalers
from nitro_learner.scalers import Decision, RoundOutcome, Scaler
from scaler_support import make


def outcome(number: int, value: float | None, statistic: str = "convexity_ratio") -> RoundOutcome:
    return RoundOutcome(round=number, actors=8, statistics={} if value is None else {statistic: value})


def actors(scaler: Scaler, values: list[float | None], statistic: str = "convexity_ratio") -> list[int]:
    return [scaler.decide(outcome(k, value, statistic)).actors for k, value in enumerate(values, start=1)]


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


def test_old_ratios_leave_the_window() -> None:
    scaler = make(window=2, decay=1.0)
    assert actors(scaler, [100, 1, 2, 1.5]) == [64, 64, 8, 64]


def test_without_a_ratio_the_score_is_zero_and_the_window_stays() -> None:
    scaler = make(decay=1.0)
    assert actors(scaler, [2, 1, None, 1.5]) == [64, 64, 8, 32]
    assert scaler.decide(outcome(5, None)) == Decision(8, 0.0)
    assert make().decide(outcome(1, None)) == Decision(8, 0.0)


def test_equal_ratios_score_one_half() -> None:
    assert actors(make(decay=1.0), [2, 2, 2 + 1e-10]) == [64, 32, 32]
    assert actors(make(decay=1.0), [1e6, 1e6]) == [64, 32]


def test_logarithmic_normalisation() -> None:
    assert actors(make(decay=1.0, normalise="log"), [1, 100, 10, 1000]) == [64, 8, 32, 8]
    assert actors(make(decay=1.0), [1, 100, 10]) == [64, 8, math.floor(64 * 90 / 99)]


def test_scores_are_reported_and_fade() -> None:
    scaler = make()
    first = scaler.decide(outcome(1, 2.0))
    assert first.score == pytest.approx(0.96)
    late = make().decide(outcome(51, 2.0))
    assert late.actors == 8  # 64 * 0.96^51 = 7.98


@pytest.mark.parametrize(
    ("mode", "statistic", "needs"),
    [
        ("lambda-min", "lambda_min", {"curvature"}),
        ("noise", "gradient_snr", {"gradient-noise"}),
        ("explained-variance", "explained_variance", set()),
    ],
)
def test_the_other_modes_score_their_statistic_by_the_same_formula(
    mode: str, statistic: str, needs: set[str]
) -> None:
    values: list[float | None] = [0.1, -0.3, 0.25, None, -0.3, 0.0, 0.9, -0.7, 0.2]
    scaler = make(mode=mode)
    assert scaler.needs == needs
    shifted = [None if value is None else value + 2 for value in values]  # min-max does not see a shift
    assert actors(scaler, values, statistic) == actors(make(), shifted)
    assert set(actors(make(mode=mode), [0.1, 0.2, 0.3], "convexity_ratio")) == {8}, "another statistic"


@pytest.mark.parametrize(
    ("mode", "low", "high"),
    [
        ("lambda-min", {"lambda_min": -5.0}, {"lambda_min": -1.0}),  # sharper against mild curvature
        ("noise", {"gradient_snr": -0.1}, {"gradient_snr": 3.0}),  # hidden by noise against clear
        ("explained-variance", {"explained_variance": 0.1}, {"explained_variance": 0.9}),
    ],
)
def test_low_values_boost(mode: str, low: dict[str, float], high: dict[str, float]) -> None:
    def after(statistics: dict[str, float], other: dict[str, float]) -> Decision:
        scaler = make(mode=mode, decay=1.0)
        scaler.decide(RoundOutcome(round=1, actors=16, statistics=other))
        return scaler.decide(RoundOutcome(round=2, actors=16, statistics=statistics))

    assert after(low, high) == Decision(64, 1.0)
    assert after(high, low) == Decision(8, 0.0)


def test_an_explained_variance_below_zero_counts_as_zero() -> None:
    """Where returns hardly vary, the share explained can be any negative number: it must not flatten the
    window."""
    values: list[float | None] = [-1e9, 0.0, 0.5, -3.0]
    scaler = make(mode="explained-variance", decay=1.0)
    assert actors(scaler, values, "explained_variance") == [64, 8, 8, 64]
    assert (
        actors(make(mode="explained-variance", decay=1.0), [-1e9, 1.0, 0.0], "explained_variance")[-1] == 32
    )


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
    assert not scaler.needs
    assert [scaler.initial, *actors(scaler, [None] * 3)] == [16] * 4


def test_schedule() -> None:
    scaler = make(scaler="schedule", schedule=[10, 20, 30], initial_actors=10)
    assert not scaler.needs
    assert [scaler.initial, *actors(scaler, [None] * 4)] == [10, 20, 30, 30, 30]


def test_random_score_draws_from_its_own_history() -> None:
    ratios = [2.0, 1.0, 3.0, 2.5, 0.5, 4.0, 1.2, 0.8]
    histories = []
    for seed in range(30):
        scaler = make(seed, scaler="random-score")
        assert scaler.needs == {"curvature"}
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


def test_random_score_draws_from_the_history_of_the_modes_statistic() -> None:
    values: list[float | None] = [0.2, -0.4, 0.3, None, 0.7]
    scaler = make(5, scaler="random-score", mode="noise")
    assert scaler.needs == {"gradient-noise"}
    actors(scaler, values, "gradient_snr")
    state = scaler.state_dict()
    assert state["history"] == [0.2, -0.4, 0.3, 0.7]
    assert set(state["window"]) <= set(state["history"])


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
def test_a_restored_scaler_continues_the_same_decisions(settings: dict[str, Any]) -> None:
    ratios: list[float | None] = [2.0, 1.0, None, 3.0, 2.5, 0.5, 4.0, 1.2, 0.8, 2.2]
    whole = make(**settings)
    expected = actors(whole, ratios)
    first = make(**settings)
    actors(first, ratios[:5])
    second = make(**settings)
    second.load_state_dict(first.state_dict())
    decisions = [second.decide(outcome(k, ratios[k - 1])).actors for k in range(6, 11)]
    assert decisions == expected[5:]


def test_adding_a_scaler_is_a_class_and_its_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alternate(Scaler):
        """The fewest and the most actors in turn."""

        def decide(self, outcome: RoundOutcome) -> Decision:
            odd = outcome.round % 2
            return Decision(self.scaling.min_actors if odd else self.scaling.max_actors)

    monkeypatch.setitem(scalers.SCALERS, "alternate", Alternate)
    scaler = make(scaler="alternate")
    assert [scaler.initial, *actors(scaler, [None] * 4)] == [16, 8, 64, 8, 64]
    scaler.load_state_dict(scaler.state_dict())


def test_every_scaler_of_the_job_exists() -> None:
    names = Scaling.model_fields["scaler"].annotation
    assert set(scalers.SCALERS) == set(names.__args__)
