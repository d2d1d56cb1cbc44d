"""The decrease detector: slopes by hand and by NumPy, normalisation over the run, noise, state."""

import numpy as np
import pytest

from nitro_learner.training.sharing.modes import DecreaseDetector, least_squares_slope


def filled(rows: list[list[float]], slope: float = 0.0) -> DecreaseDetector:
    """A detector whose window is as long as the rows, one for each round with the agents' returns."""
    detector = DecreaseDetector(len(rows), slope)
    for row in rows:
        detector.push({str(agent): value for agent, value in enumerate(row)})
    return detector


def test_the_slope_of_a_full_ramp_and_of_a_step_are_the_specs() -> None:
    assert least_squares_slope(np.arange(10) / 9) == pytest.approx(1 / 9)
    step = np.repeat([0.0, 1.0], 5)
    assert least_squares_slope(step) == pytest.approx(0.1515, abs=5e-5)
    assert least_squares_slope(step[::-1]) == pytest.approx(-0.1515, abs=5e-5)


def test_the_slope_equals_numpys_polynomial_fit() -> None:
    generator = np.random.default_rng(3)
    for length in (2, 3, 10, 57):
        values = generator.normal(size=length)
        expected = np.polyfit(np.arange(length), values, 1)[0]
        assert least_squares_slope(values) == pytest.approx(expected, abs=1e-12)


def test_each_agent_counts_by_its_own_range() -> None:
    # The first agent rises over its range of 2, the second falls over its range of 200.
    detector = filled([[0, 100], [1, 0], [2, -100]])
    assert detector.window == pytest.approx([0.5, 0.5, 0.5])
    assert detector.slope == pytest.approx(0)
    assert not detector.falling


def test_equal_returns_are_one_half() -> None:
    detector = filled([[5, 0], [5, 1]])
    assert detector.window == pytest.approx([0.25, 0.75])


def test_the_range_is_the_runs_and_the_window_is_normalised_anew() -> None:
    detector = DecreaseDetector(2, 0.0)
    for value in (0, 10, 8):
        detector.push({"a": value})
    assert detector.window == pytest.approx([1.0, 0.8])
    detector.push({"a": 20})
    assert detector.window == pytest.approx([0.4, 1.0])
    detector.clear()
    detector.push({"a": 5})
    detector.push({"a": 15})
    assert detector.window == pytest.approx([0.25, 0.75]), "clearing forgot the run's range"


def test_no_answer_before_the_window_is_full() -> None:
    detector = DecreaseDetector(3, 0.0)
    for value in (3, 2):
        detector.push({"a": value})
        assert detector.slope is None
        assert not detector.falling
    detector.push({"a": 1})
    assert detector.falling
    detector.clear()
    assert detector.slope is None


def test_the_threshold_is_a_share_of_the_range_per_round() -> None:
    ramp = [[9.0 - k] for k in range(10)]
    assert filled(ramp, slope=-0.11).falling
    assert not filled(ramp, slope=-0.12).falling
    assert not filled([[1.0], [1.0]], slope=0.0).falling, "a slope of 0 is not below 0"


@pytest.mark.parametrize(("slope", "expected"), [(-0.02, 0.27), (0.0, 0.50), (0.02, 0.73)])
def test_noise_toggles_as_often_as_the_spec_measured(slope: float, expected: float) -> None:
    generator = np.random.default_rng(11)
    found = []
    for _ in range(1500):
        detector = DecreaseDetector(10, slope)
        for value in generator.normal(size=10):
            detector.push({"a": value})
        found.append(detector.falling)
    assert np.mean(found) == pytest.approx(expected, abs=0.05)


def test_a_restored_detector_goes_on_exactly() -> None:
    values = np.random.default_rng(5).normal(size=(30, 2))
    whole, first, second = (DecreaseDetector(4, 0.0) for _ in range(3))
    for index, row in enumerate(values):
        returns = {"a": float(row[0]), "b": float(row[1])}
        whole.push(returns)
        (first if index < 17 else second).push(returns)
        if index == 16:
            second.load_state_dict(first.state_dict())
    assert second.slope == whole.slope
    assert second.state_dict() == whole.state_dict()
