"""When the modes toggle."""

import numpy as np
import pytest

from nitro_learner.training.sharing.modes import Dynamic, Mode, RandomToggle


def test_static_never_toggles() -> None:
    assert not any(Mode().toggles(k, {"a": -float(k)}) for k in range(1, 50))


def test_dynamic_toggles_when_returns_fall_and_then_waits_for_a_full_window() -> None:
    mode = Dynamic(window=3, slope=0.0)
    falling = [{"a": -float(k)} for k in range(1, 10)]
    found = [mode.toggles(k, one) for k, one in enumerate(falling, 1)]
    # By the run's range so far: 2, 5 and 8.
    slopes = ("-0.5000", "-0.2000", "-0.1250")
    reasons = [f"the slope of the returns, {slope}, is below 0" for slope in slopes]
    assert found == [None, None, reasons[0], None, None, reasons[1], None, None, reasons[2]]


def test_a_round_without_an_episode_does_not_count() -> None:
    mode = Dynamic(window=2, slope=0.0)
    rounds = [{"a": 2.0}, {}, {}, {"a": 1.0}]
    assert [bool(mode.toggles(k, one)) for k, one in enumerate(rounds, 1)] == [False, False, False, True]


def test_dynamic_goes_on_exactly_from_its_state() -> None:
    returns = np.random.default_rng(0).normal(size=60)
    whole, parts = Dynamic(5, 0.0), [Dynamic(5, 0.0), Dynamic(5, 0.0)]
    for k, value in enumerate(returns, 1):
        if k == 24:
            parts[1].load_state_dict(parts[0].state_dict())
        assert parts[k >= 24].toggles(k, {"a": value}) == whole.toggles(k, {"a": value})


def test_random_toggles_are_as_many_as_asked_and_a_window_apart() -> None:
    for seed in range(200):
        rounds = RandomToggle(4, window=10, rounds=60, seed=seed).rounds
        assert len(rounds) == 4
        assert np.diff([0, *rounds]).min() >= 10
        assert rounds[-1] < 60
    mode = RandomToggle(4, window=10, rounds=60, seed=3)
    assert [k for k in range(1, 61) if mode.toggles(k, {})] == list(mode.rounds)
    assert mode.rounds == RandomToggle(4, window=10, rounds=60, seed=3).rounds


def test_each_choice_of_rounds_is_equally_probable() -> None:
    found = [RandomToggle(2, window=2, rounds=7, seed=seed).rounds for seed in range(3000)]
    choices, counts = np.unique(found, axis=0, return_counts=True)
    assert choices.tolist() == [[2, 4], [2, 5], [2, 6], [3, 5], [3, 6], [4, 6]]
    assert counts.min() > 400


def test_a_run_that_is_too_short_for_its_toggles_is_refused() -> None:
    assert RandomToggle(3, window=10, rounds=31, seed=0).rounds == (10, 20, 30)
    with pytest.raises(ValueError, match=r"spec\.sharing\.toggles: 3 toggles.* need 31 rounds"):
        RandomToggle(3, window=10, rounds=30, seed=0)
