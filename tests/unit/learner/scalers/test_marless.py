"""MARLess' scaler: the figure, degenerate ratios, sharing, its control, and what it does without a signal."""

import math
from typing import Any

import numpy as np
import pytest

from nitro_learner.scalers import PolicyOutcome, RoundOutcome
from nitro_learner.scalers.marless import MarlessRandomScaler, MarlessScaler, together
from scaler_support import SPEC

RANGE = {"min_actors": 10, "max_actors": 50, "initial_actors": 50, "window": 10, "threshold": 0.5}


def make(kind: type[MarlessScaler] = MarlessScaler, seed: int = 0, **scaling: Any) -> MarlessScaler:
    return kind(
        SPEC.model_copy(update={"seed": seed, "scaling": SPEC.scaling.model_copy(update=RANGE | scaling)})
    )


def outcome(round: int, ratios: dict[str, float | None], fresh: tuple[str, ...] = ()) -> RoundOutcome:
    policies = {
        name: PolicyOutcome(fresh=True) if name in fresh else PolicyOutcome(ratio)
        for name, ratio in ratios.items()
    }
    return RoundOutcome(round=round, actors=20, policies=policies)


FIGURE = [
    ((50, 50, 50), 50),
    ((10, 50, 50), 50),
    ((10, 35.5, 40.9), 40.9),
    ((10, 10, 50), 23.3),
    ((10, 26.9, 32.3), 23.1),
    ((10, 47.8, 37.1), 47.8),
    ((23.3, 18.6, 43.7), 43.7),
    ((10, 10, 20.3), 13.4),
    ((50, 25.4, 10), 50),
]
"""Figure 6 of the paper, point by point: what the three policies want, and what they get together."""


@pytest.mark.parametrize(("wanted", "expected"), FIGURE)
def test_figure_6_of_the_paper(wanted: tuple[float, ...], expected: float) -> None:
    # Its line is at 25 = 0.625 (50 - 10).
    assert together(wanted, fewest=10, most=50, threshold=0.625) == pytest.approx(expected, abs=0.05)


def test_the_threshold_itself_reaches_the_maximum() -> None:
    assert together([10, 30], fewest=10, most=50, threshold=0.5) == 30
    assert together([10, 29.9], fewest=10, most=50, threshold=0.5) == pytest.approx(19.95)


def test_every_policy_wants_by_its_own_window() -> None:
    scaler = make()
    assert scaler.decide(outcome(1, {"a": 5.0, "b": 1.0})).actors == 50
    assert scaler.decide(outcome(2, {"a": 1.0, "b": 3.0})).actors == 50
    decision = scaler.decide(outcome(3, {"a": 4.0, "b": 2.0}))
    wished = {name: (wish.score, wish.actors) for name, wish in decision.policies.items()}
    assert wished == {"a": (0.25, 12.5), "b": (0.5, 25.0)}
    assert decision.score == pytest.approx(0.375)
    assert decision.actors == math.floor((12.5 + 25) / 2) == 18


def test_old_ratios_leave_the_window() -> None:
    scaler = make(window=2)
    for round, ratio in enumerate([100.0, 1.0, 2.0], 1):
        decision = scaler.decide(outcome(round, {"a": ratio}))
    assert decision.score == 0.0
    assert decision.actors == 10


def test_ratios_that_are_missing_or_equal() -> None:
    scaler = make()
    assert scaler.decide(outcome(1, {"a": None, "b": 2.0})).policies["a"].score == 0.0
    second = scaler.decide(outcome(2, {"a": 3.0, "b": 2.0}))
    assert second.policies["a"].score == 1.0, "a missing ratio has entered the window"
    assert second.policies["b"].score == 0.5
    assert scaler.decide(outcome(3, {"a": 2.0, "b": None})).policies["a"].score == 1.0


def test_a_toggle_clears_the_windows_of_the_policies_that_it_changed() -> None:
    scaler = make()
    for round, ratio in enumerate([1.0, 2.0, 3.0], 1):
        scaler.decide(outcome(round, {"a": ratio, "b": ratio, "c": ratio}))
    toggled = scaler.decide(outcome(4, {"a": None, "c": 4.0}, fresh=("a",)))
    assert toggled.policies["a"].score == 1.0
    assert toggled.policies["c"].score == 0.0
    after = scaler.decide(outcome(5, {"a": 9.0, "c": 1.0}))
    assert after.policies["a"].score == 1.0, "the new policy has a value of the old one"
    assert after.policies["c"].score == 1.0
    again = scaler.decide(outcome(6, {"a": 10.0, "b": 2.0, "c": 2.5}))
    assert again.policies["b"].score == 1.0, "a policy that was gone came back with its window"


def test_after_a_toggle_of_all_policies_comes_the_maximum() -> None:
    scaler = make()
    for round, ratio in enumerate([1.0, 2.0, 3.0], 1):
        scaler.decide(outcome(round, {"a": ratio, "b": ratio}))
    decision = scaler.decide(outcome(4, {"a": None}, fresh=("a",)))
    assert (decision.actors, decision.score) == (50, 1.0)


def average(policies: int, draw: Any) -> float:
    scaler = make(window=10)
    names = [str(index) for index in range(policies)]
    return float(
        np.mean(
            [
                scaler.decide(outcome(round, dict(zip(names, draw(policies).tolist(), strict=True)))).actors
                for round in range(1, 4001)
            ]
        )
    )


@pytest.mark.parametrize(
    ("policies", "normal", "log_normal"), [(6, 41.6, 46.4), (4, 38.5, 43.9), (2, 33.2, 39.0)]
)
def test_without_a_signal_it_asks_for_what_the_spec_measured(
    policies: int, normal: float, log_normal: float
) -> None:
    generator = np.random.default_rng(policies)
    assert average(policies, lambda n: generator.normal(size=n)) == pytest.approx(normal, abs=1.2)
    assert average(policies, lambda n: generator.lognormal(0, 0.5, n)) == pytest.approx(log_normal, abs=1.2)


def test_the_control_draws_from_each_policys_own_history() -> None:
    scaler = make(MarlessRandomScaler, seed=3)
    for round in range(1, 40):
        decision = scaler.decide(outcome(round, {"a": float(round), "b": 7.0}))
        assert decision.policies["b"].score == (1.0 if round == 1 else 0.5)
    # Rising ratios alone would score 0 in every round.
    assert decision.policies["a"].score > 0
    toggled = scaler.decide(outcome(40, {"a": None, "b": 7.0}, fresh=("a",)))
    assert toggled.policies["a"].score == 1.0
    after = [scaler.decide(outcome(round, {"a": 100.0, "b": 7.0})) for round in (41, 42)]
    assert after[1].policies["a"].score == 0.5, "the control drew a value from before the toggle"


def test_the_control_differs_between_policies_seeds_and_rounds_only() -> None:
    def scores(seed: int) -> list[tuple[float, float]]:
        scaler = make(MarlessRandomScaler, seed=seed)
        found = []
        for round in range(1, 30):
            decision = scaler.decide(outcome(round, {"a": float(round), "b": float(round)}))
            found.append((decision.policies["a"].score, decision.policies["b"].score))
        return found

    assert scores(1) == scores(1) != scores(2)
    assert any(a != b for a, b in scores(1))


@pytest.mark.parametrize("kind", [MarlessScaler, MarlessRandomScaler])
def test_a_restored_scaler_goes_on_exactly(kind: type[MarlessScaler]) -> None:
    generator = np.random.default_rng(0)
    whole, parts = make(kind), [make(kind), make(kind)]
    for round in range(1, 40):
        ratios = {name: float(value) for name, value in zip("ab", generator.normal(size=2), strict=True)}
        given = outcome(round, ratios, fresh=("b",) if round == 15 else ())
        if round == 17:
            parts[1].load_state_dict(parts[0].state_dict())
        assert parts[round >= 17].decide(given) == whole.decide(given)
