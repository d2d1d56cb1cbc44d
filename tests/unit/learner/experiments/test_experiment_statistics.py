"""Statistics of seeds and of repeated measurements, against SciPy's and against definitions written out."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from nitro_learner.experiments import statistics
from nitro_learner.experiments.curves import FinishedRun
from nitro_learner.quality.agreement import (
    correlation_of_changes,
    intraclass_correlation,
    spearman,
    split_half,
)
from nitro_learner.quality.foresight import foretold, improvements, over_runs
from nitro_learner.quality.repeats import compared
from nitro_learner.training.round_report import COLUMNS


@pytest.fixture
def rng() -> np.random.Generator:
    """Every test's own: what it draws must not hang on the tests before it."""
    return np.random.default_rng(0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 11])
def test_interquartile_mean_is_the_trimmed_mean_of_rliable(count: int, rng: np.random.Generator) -> None:
    scores = rng.normal(size=count)
    assert statistics.interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25))


def test_probability_of_improvement_is_the_mann_whitney_statistic(rng: np.random.Generator) -> None:
    scores, others = rng.integers(0, 6, 9).astype(float), rng.integers(1, 7, 9).astype(float)
    u = stats.mannwhitneyu(scores, others, alternative="greater").statistic
    found = statistics.probability_of_improvement(scores, others)
    assert found.value == pytest.approx(u / 81)
    by_hand = np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in product(scores, others)])
    assert found.value == pytest.approx(by_hand)
    assert found.low <= found.value <= found.high


def test_the_interval_of_the_improvement_resamples_both_groups_independently() -> None:
    rng = np.random.default_rng(1)
    scores, others = rng.normal(1, 3, 5), rng.normal(0, 3, 5)

    def statistic(x: np.ndarray, y: np.ndarray) -> float:
        return float(stats.mannwhitneyu(x, y).statistic) / 25

    reference = stats.bootstrap(
        (scores, others),
        statistic,
        method="percentile",
        vectorized=False,
        n_resamples=3_000,
        random_state=np.random.default_rng(0),
    ).confidence_interval
    found = statistics.probability_of_improvement(scores, others)
    assert found.low == pytest.approx(reference.low, abs=0.041)
    assert found.high == pytest.approx(reference.high, abs=0.041)
    same = statistics.probability_of_improvement(scores, scores)
    assert (same.low + same.high) / 2 == pytest.approx(0.5, abs=0.041), "seeds are compared with themselves"


def test_paired_interval_is_the_percentile_bootstrap_of_differences(rng: np.random.Generator) -> None:
    scores, others = rng.normal(10, 3, 10), rng.normal(9, 3, 10)
    found = statistics.paired_difference(scores, others)
    reference = stats.bootstrap(
        (scores - others,),
        np.mean,
        method="percentile",
        n_resamples=20_000,
        random_state=np.random.default_rng(0),
    ).confidence_interval
    spread = np.std(scores - others) / math.sqrt(10)
    assert found.value == pytest.approx(np.mean(scores - others))
    assert found.low == pytest.approx(reference.low, abs=0.06 * spread)
    assert found.high == pytest.approx(reference.high, abs=0.06 * spread)
    assert found == statistics.paired_difference(scores, others), "a report must repeat itself"


def test_a_relative_difference_keeps_seeds_paired() -> None:
    scores = np.array([1.0, 2.0, 6.0])
    doubled = statistics.relative_difference(2 * scores, scores)
    assert (doubled.value, doubled.low, doubled.high) == (100, 100, 100), "in every resample"
    assert statistics.relative_difference(scores, scores + 1).value == pytest.approx(100 * (3 / 4 - 1))


def test_seeds_stay_paired(rng: np.random.Generator) -> None:
    """A constant difference has no uncertainty, however much the seeds differ among themselves."""
    others = rng.normal(0, 100, 6)
    found = statistics.paired_difference(others + 1, others)
    assert (found.low, found.high) == pytest.approx((1, 1))
    assert found.excludes_zero
    assert not statistics.paired_difference(others, others).excludes_zero


def test_one_seed_has_no_interval() -> None:
    found = statistics.mean(np.array([3.0]))
    assert found.value == 3.0
    assert math.isnan(found.low)
    assert not found.excludes_zero


def test_bands_are_the_means_of_the_columns(rng: np.random.Generator) -> None:
    curves = rng.normal(size=(10, 4)) + np.arange(4)
    middle, low, high = statistics.mean_band(curves)
    assert middle == pytest.approx(curves.mean(axis=0))
    for column in range(4):
        interval = statistics.mean(curves[:, column])
        assert low[column] == pytest.approx(interval.low, abs=0.05)
        assert high[column] == pytest.approx(interval.high, abs=0.05)


def test_intraclass_correlation_is_that_of_the_analysis_of_variance(rng: np.random.Generator) -> None:
    values = rng.normal(size=(12, 1)) * 2 + rng.normal(size=(12, 4))
    f = stats.f_oneway(*values).statistic
    assert intraclass_correlation(values) == pytest.approx((f - 1) / (f + 3))
    # Without noise, and without anything but noise.
    assert intraclass_correlation(np.repeat(np.arange(5.0)[:, None], 3, axis=1)) == pytest.approx(1)
    assert intraclass_correlation(rng.normal(size=(4000, 4))) == pytest.approx(0, abs=0.03)
    assert math.isnan(intraclass_correlation(np.ones((1, 4))))


@pytest.mark.parametrize("rounds", [7, 10])
def test_changes_of_pure_noise_do_not_agree(rounds: int) -> None:
    """Taken as independent, neighbouring changes seem to."""
    draws = np.random.default_rng(2).normal(size=(4000, rounds, 4))
    apart = np.mean([intraclass_correlation(values[1:] - values[:-1]) for values in draws])
    assert apart > 0.02
    assert abs(np.mean([correlation_of_changes(values) for values in draws])) < 0.015
    steps = np.cumsum(np.arange(6.0) ** 2)[:, None]
    assert correlation_of_changes(np.repeat(steps, 3, axis=1)) == pytest.approx(1)
    assert math.isnan(correlation_of_changes(draws[0, :2]))


def test_eigenvalues_are_compared_by_magnitude_without_losing_their_order() -> None:
    values = np.random.default_rng(3).lognormal(size=(6, 4))
    positive, negative = compared("lambda_max", values), compared("lambda_min", -values)
    np.testing.assert_array_equal(positive, np.log(values))
    assert (np.argsort(negative, axis=None) == np.argsort(-values, axis=None)).all()
    for agreement in (intraclass_correlation, correlation_of_changes, split_half):
        assert agreement(negative) == pytest.approx(agreement(positive))
    for name, both in (("lambda_min", values - 1), ("kl", values)):
        np.testing.assert_array_equal(compared(name, both), both)


def test_rank_correlation_is_scipys(rng: np.random.Generator) -> None:
    x, y = rng.integers(0, 5, 30).astype(float), rng.normal(size=30)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))
    assert math.isnan(spearman(x[:2], y[:2]))


def test_split_half_goes_over_all_halves(rng: np.random.Generator) -> None:
    values = rng.normal(size=(9, 4))
    halves = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    expected = np.mean(
        [stats.spearmanr(values[:, a].mean(axis=1), values[:, b].mean(axis=1)).statistic for a, b in halves]
    )
    assert split_half(values) == pytest.approx(expected)
    assert split_half(values[:, :2]) == pytest.approx(stats.spearmanr(values[:, 0], values[:, 1]).statistic)
    assert split_half(np.repeat(np.arange(5.0)[:, None], 3, axis=1)) == pytest.approx(1)


def test_a_statistic_is_correlated_with_the_gain_of_the_next_round() -> None:
    """Row j's returns are of the policy before round j, so round k's statistic is held against the step from
    row k + 1 to row k + 2, and the last of these steps ends at the final evaluation."""
    evaluations, final = [0.0, 1.0, 5.0, 6.0, 16.0], 18.0
    gains = [4.0, 1.0, 10.0, 2.0]  # of rounds 2 to 5
    columns = {name: np.full(5, np.nan) for name in COLUMNS}
    columns["evaluation_mean"] = np.array([np.nan, *evaluations[1:]])
    columns["lambda_min"] = np.array([-math.exp(gain) for gain in gains] + [np.nan])
    columns["entropy"] = np.array([-gain for gain in gains] + [np.nan])
    run = FinishedRun(columns, {"evaluation": {"mean": final}})
    assert improvements(run)[1:].tolist() == gains
    found = foretold(run)
    assert found["lambda_min"] == pytest.approx(-1), "the lowest, not the smallest magnitude"
    assert found["entropy"] == pytest.approx(-1)
    assert math.isnan(found["kl"])
    over = over_runs([found, {"entropy": 0.5}])
    assert over["entropy"].value == pytest.approx(-0.25)
    assert "kl" not in over
