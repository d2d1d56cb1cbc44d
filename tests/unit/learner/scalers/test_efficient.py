"""The scaler that weighs a round's improvement against its cost: formula, costs, and resume."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner_support import job
from nitro_api.costs.round_costs import ModelledCosts
from nitro_learner import scalers
from nitro_learner.scalers import RoundOutcome, Scaler
from nitro_learner.scalers.efficient import FittedCosts, best_actors
from scaler_support import make


def decide(scaler: Scaler, rounds: list[tuple[float, float] | None], cost: float = 0.0) -> list[int]:
    """I_1, I_2, ... when rounds have these (G, S), None where they were not measured."""
    actors = [scaler.initial]
    for k, pair in enumerate(rounds, start=1):
        statistics = dict(zip(("gradient_signal", "gradient_noise"), pair, strict=True)) if pair else {}
        outcome = RoundOutcome(round=k, actors=actors[-1], statistics=statistics, round_cost=cost)
        actors.append(scaler.decide(outcome).actors)
    return actors


@given(st.floats(0.01, 1e4), st.floats(0.1, 1e4))
def test_no_other_number_of_actors_improves_more_per_dollar(noise: float, ratio: float) -> None:
    found = best_actors(noise, ratio)

    def log_worth(actors: float) -> float:
        return -0.5 * math.log1p(noise / actors) - math.log(ratio + actors)

    assert 0 < found <= ratio
    assert all(log_worth(found) >= log_worth(found * other) for other in (0.5, 0.9, 0.99, 1.01, 1.1, 2))


def test_without_noise_few_actors_are_best_and_with_noise_alone_as_many_as_the_round_costs() -> None:
    assert best_actors(0.0, 40.0) == 0
    assert best_actors(math.inf, 40.0) == 40


def test_decisions_by_hand() -> None:
    """With K = 40 and 512 transitions an actor."""
    scaler = make(scaler="efficient", cost_ratio=40.0)
    assert scaler.needs == {"gradient-noise"}
    # Averages: G 1, 1, 0.8; S 5,120, 14,336, 11,520; N 10, 28, 28.1. The positive roots of
    # 2 I^2 + N I - N K = 0 are 11.9, 17.7 and 17.7. Then G's average is below zero.
    rounds = [(1.0, 5120.0), (1.0, 51200.0), (0.0, 256.0), (-100.0, 256.0)]
    assert decide(scaler, rounds) == [16, 12, 18, 18, 40]


def test_a_round_without_a_measurement_changes_nothing() -> None:
    scaler = make(scaler="efficient", cost_ratio=40.0)
    assert decide(scaler, [None, (1.0, 5120.0), None]) == [16, 16, 12, 12]


def test_rounds_keep_enough_trajectories_to_show_noise() -> None:
    """A round of a single trajectory has no noise to measure: the scaler would stay there for ever."""
    one_each = make(scaler="efficient", cost_ratio=0.1, min_actors=1)
    assert decide(one_each, [(1.0, 1.0), None]) == [16, 2, 2]
    assert decide(make(scaler="efficient", min_actors=1, initial_actors=1), [None]) == [1, 2]


@pytest.mark.parametrize("costs", [None, "measured"])
@pytest.mark.parametrize("cut", [0, 1, 5])
def test_a_restored_scaler_continues_the_same_decisions(cut: int, costs: str | None) -> None:
    rounds: list[tuple[float, float] | None] = [(1.0, 4000.0 * 1.4**k) for k in range(12)]
    paid = {"cost": 0.01} if costs else {}
    settings: dict[str, Any] = {"scaler": "efficient", "costs": costs}
    settings |= {} if costs else {"cost_ratio": 60.0}
    expected = decide(make(**settings), rounds, **paid)
    assert len(set(expected)) > 2, "nothing to see"
    first, second = make(**settings), make(**settings)
    actors = [decide(first, rounds[:cut], **paid)[-1]]
    second.load_state_dict(first.state_dict())
    for k, pair in enumerate(rounds[cut:], start=cut + 1):
        assert pair
        statistics = dict(zip(("gradient_signal", "gradient_noise"), pair, strict=True))
        outcome = RoundOutcome(round=k, actors=actors[-1], statistics=statistics, round_cost=0.01)
        actors.append(second.decide(outcome).actors)
    assert actors == expected[cut:]


def test_a_runs_cost_ratio_outlives_a_change_of_its_actors_memory() -> None:
    """The memory may change while a job is suspended. The run goes on with the ratio that it began with."""
    before, after = (
        scalers.make(job("paper", scaling__scaler="efficient", pricing__actorMemoryGB=gb).spec)
        for gb in (1.0, 10.0)
    )
    assert before.state_dict() != after.state_dict()
    after.load_state_dict(before.state_dict())
    assert before.state_dict() == after.state_dict()


def test_modelled_costs_by_hand() -> None:
    """Rounds of 512 steps an actor and 30 epochs: each actor takes 0.05 s and 512 of 0.12 ms, and adds 15,360
    sample-epochs of 6.3 us to the update; 0.1 s are the round's."""
    prices = {"pricing__learnerDollarsPerHour": 3.6, "pricing__lambdaGBSecond": 2e-5}
    spec = job("paper", pricing__actorMemoryGB=2.0, **prices).spec
    found = ModelledCosts.of(spec)
    # An invocation of 0.11144 s is billed as 0.112 s.
    assert found.base == pytest.approx(1e-3 * (0.1 + 0.11144))
    assert found.actor == pytest.approx(1e-3 * 15360 * 6.3e-6 + 0.112 * 2 * 2e-5 + 2e-7)
    assert found.ratio == pytest.approx(found.base / found.actor)

    # On a GPU a gradient step takes 1.4 ms: `paper` has 30 for any batch, `tuned` 10 for each 64 samples.
    gpu = {"learner__resources": {"limits": {"nvidia.com/gpu": 1}}, "pricing__actorMemoryGB": 2.0, **prices}
    whole, small = (ModelledCosts.of(job(preset, **gpu).spec) for preset in ("paper", "tuned"))
    assert whole.base == pytest.approx(1e-3 * (0.1 + 0.11144 + 30 * 1.4e-3))
    assert whole.actor == pytest.approx(0.112 * 2 * 2e-5 + 2e-7)
    assert small.base == pytest.approx(1e-3 * (0.1 + 0.11144))
    assert small.actor == pytest.approx(1e-3 * 80 * 1.4e-3 + 0.112 * 2 * 2e-5 + 2e-7)
    # Machines are paid for the round's time, whatever the actors: the update alone makes a round longer.
    machines = ModelledCosts.of(job("paper", pricing__model="vm", **prices).spec)
    assert machines.base / machines.actor == pytest.approx((0.1 + 0.11144) / (15360 * 6.3e-6))


def test_actors_that_cost_nothing_are_no_division_by_zero() -> None:
    assert ModelledCosts(0.01, 0.0).ratio == 1e6
    assert ModelledCosts(0.0, 0.01).ratio == 0


def test_fitted_costs_find_what_rounds_cost() -> None:
    generator = np.random.default_rng(3)
    fitted = FittedCosts(ModelledCosts(1.0, 1.0))
    for actors in generator.integers(4, 64, 60).tolist():
        ratio = fitted.add(actors, 0.30 + 0.01 * actors + 0.005 * generator.standard_normal())
    assert ratio == pytest.approx(30, rel=0.1)
    for actors in generator.integers(4, 64, 120).tolist():  # the backend became dearer
        ratio = fitted.add(actors, 0.30 + 0.03 * actors)
    assert ratio == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("first", [0.2, 1.0, 4.0])
def test_rounds_of_one_size_leave_the_modelled_ratio_in_place(first: float) -> None:
    """They say what a round costs in all, not how it is made up; nor does a first one with a cold start."""
    modelled = ModelledCosts(0.4, 0.01)
    fitted = FittedCosts(modelled)
    ratios = [fitted.add(16, 0.05 * (first if k == 0 else 1.0)) for k in range(40)]
    assert ratios == pytest.approx([modelled.ratio] * 40)


def test_costs_that_fit_no_line_give_a_ratio_in_its_bounds() -> None:
    """Larger rounds were cheaper, as after a cold start: actors cost nothing. And the other way round."""
    fitted = FittedCosts(ModelledCosts(0.1, 0.001))
    assert fitted.add(4, 1.0) >= 0
    assert fitted.add(64, 0.1) == 1e6
    steep = FittedCosts(ModelledCosts(0.1, 0.001))
    for _ in range(20):
        steep.add(4, 0.0)
        ratio = steep.add(64, 10)
    assert ratio == 0
