"""The paper's other scalers, against section 7 of the specification by hand."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner.scalers import RoundOutcome, Scaler
from scaler_support import make

finite = st.floats(-1e6, 1e6)


def run(scaler: Scaler, rounds: list[dict[str, Any]]) -> list[int]:
    """I_1, I_2, ... when each round ends with these facts."""
    actors = [scaler.initial]
    for k, facts in enumerate(rounds, start=1):
        actors.append(scaler.decide(RoundOutcome(round=k, actors=actors[-1], **facts)).actors)
    return actors


def noises(*pairs: tuple[float, float] | None) -> list[dict[str, Any]]:
    """Rounds with these (G, S); None where they were not measured."""
    return [
        {
            "statistics": {}
            if pair is None
            else dict(zip(("gradient_signal", "gradient_noise"), pair, strict=True))
        }
        for pair in pairs
    ]


def test_kungfu_by_hand() -> None:
    scaler = make(scaler="kungfu")
    assert scaler.needs == {"gradient-noise"}
    # EMA(G): 2, 1.9, 1.81; EMA(S): 100, 130, 127; GNS: 50 (the reference, at 16 actors), 68.4, 70.2.
    assert run(scaler, noises((2.0, 100.0), (1.0, 400.0), (1.0, 100.0))) == [16, 16, 21, 22]


def test_kungfu_waits_for_a_signal_and_never_scales_down() -> None:
    rounds = noises((-1.0, 50.0), None, (30.0, 50.0), (30.0, 5.0), (1.0, 5e4), (30.0, 5.0))
    # EMA(G): -1, then 2.1, 4.89, 4.501, 7.0509; EMA(S): 50, then 50, 45.5, 5040.95, 4537.355.
    assert run(make(scaler="kungfu"), rounds) == [16, 16, 16, 16, 16, 64, 64]


@given(st.lists(st.none() | st.tuples(finite, st.floats(0, 1e9)), max_size=12))
def test_kungfu_follows_the_formula_for_any_measurement(pairs: list[tuple[float, float] | None]) -> None:
    signal = noise = None
    reference: tuple[float, int] | None = None
    expected = [16]
    for pair in pairs:
        actors = expected[-1]
        if pair is not None:
            signal = pair[0] if signal is None else 0.9 * signal + (1 - 0.9) * pair[0]
            noise = pair[1] if noise is None else 0.9 * noise + (1 - 0.9) * pair[1]
            if signal > 0 and noise > 0:
                scale = noise / signal
                reference = reference or (scale, actors)
                wanted = reference[1] * (scale / reference[0])
                actors = max(actors, 64 if wanted >= 64 else math.floor(wanted))
        expected.append(min(max(actors, 8), 64))
    assert run(make(scaler="kungfu"), noises(*pairs)) == expected


def test_hydrozoa_doubles_every_ten_rounds() -> None:
    scaler = make(scaler="hydrozoa", initial_actors=8)
    assert not scaler.needs
    actors = run(scaler, [{}] * 45)
    assert actors == [8] * 10 + [16] * 10 + [32] * 10 + [64] * 16


def test_minionsrl_adapt_scales_by_the_share_of_the_target() -> None:
    scaler = make(scaler="minionsrl-adapt", stop={"target_reward": 1000.0})
    assert not scaler.needs
    rewards = [None, 100.0, 300.0, None, 500.0, 700.0, 900.0, 1100.0, 5000.0, -90000.0]
    rounds = [{"reward_round": reward} for reward in rewards]
    # Means of the last five rewards: -, 100, 200, 200, 300, 400, 500, 700, 1640, negative.
    assert run(scaler, rounds) == [16, 8, 8, 12, 12, 19, 25, 32, 44, 64, 8]


@given(st.lists(st.none() | finite, max_size=15), st.floats(1e-3, 1e6))
def test_minionsrl_adapt_stays_in_its_range(rewards: list[float | None], target: float) -> None:
    scaler = make(scaler="minionsrl-adapt", stop={"target_reward": target})
    actors = run(scaler, [{"reward_round": reward} for reward in rewards])
    assert all(8 <= n <= 64 for n in actors)


FACTS = [
    {
        "statistics": {"gradient_signal": 1.0 + k % 3, "gradient_noise": 50.0 * 1.3**k},
        "reward_round": 40.0 * k if k % 4 else None,
    }
    for k in range(1, 25)
]


@pytest.mark.parametrize("name", ["kungfu", "hydrozoa", "minionsrl-adapt"])
@pytest.mark.parametrize("cut", [0, 1, 11])
def test_a_restored_scaler_continues_the_same_decisions(name: str, cut: int) -> None:
    settings: dict[str, Any] = {"scaler": name, "stop": {"target_reward": 900.0}}
    expected = run(make(**settings), FACTS)
    assert len(set(expected)) > 2, "nothing to see"
    first, second = make(**settings), make(**settings)
    done = run(first, FACTS[:cut])
    second.load_state_dict(first.state_dict())
    actors = [done[-1]]
    for k, facts in enumerate(FACTS[cut:], start=cut + 1):
        actors.append(second.decide(RoundOutcome(round=k, actors=actors[-1], **facts)).actors)
    assert actors == expected[cut:]
