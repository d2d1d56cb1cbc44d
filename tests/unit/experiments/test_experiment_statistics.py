"""Statistics of seeds and of repeated measurements, against SciPy's and against definitions written out."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import stats

from nitro_experiments.quality.agreement import (
    correlation_of_changes,
    intraclass_correlation,
    spearman,
    split_half,
)
from nitro_experiments.quality.foresight import foretold, improvements, over_runs
from nitro_experiments.quality.repeats import compared
from nitro_experiments.reading.curves import FinishedRun
from nitro_experiments.statistics import few_seeds
from nitro_experiments.writing import cells
from nitro_learner.training.round_report import COLUMNS


@pytest.fixture
def rng() -> np.random.Generator:
    """Every test's own: what it draws must not hang on the tests before it."""
    return np.random.default_rng(0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 11])
def test_interquartile_mean_is_the_trimmed_mean_of_rliable(count: int, rng: np.random.Generator) -> None:
    scores = rng.normal(size=count)
    assert few_seeds.interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25))


def test_probability_of_improvement_is_the_mann_whitney_statistic(rng: np.random.Generator) -> None:
    scores, others = rng.integers(0, 6, 9).astype(float), rng.integers(1, 7, 9).astype(float)
    u = stats.mannwhitneyu(scores, others, alternative="greater").statistic
    found = few_seeds.probability_of_improvement(scores, others)
    assert found == pytest.approx(u / 81)
    by_hand = np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in product(scores, others)])
    assert found == pytest.approx(by_hand)


def test_the_paired_interval_is_that_of_the_paired_t_test(rng: np.random.Generator) -> None:
    scores, others = rng.normal(10, 3, 10), rng.normal(9, 3, 10)
    reference = stats.ttest_rel(scores, others)
    found = few_seeds.paired_difference(scores, others)
    limits = reference.confidence_interval()
    assert (found.low, found.high, found.p) == pytest.approx((limits.low, limits.high, reference.pvalue))
    assert found.value == pytest.approx(np.mean(scores - others))


Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
# Differences of two runs whose returns are normal, skewed, or of two kinds: 30 % of them fail.
DIFFERENCES: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "skewed": lambda rng, shape: rng.lognormal(sigma=0.7, size=shape) - rng.lognormal(sigma=0.7, size=shape),
    "two kinds": lambda rng, shape: (
        3.0 * (rng.random(shape) < 0.7) - 3.0 * (rng.random(shape) < 0.7) + rng.normal(size=shape)
    ),
}


@pytest.mark.parametrize("seeds", [10, 20])
@pytest.mark.parametrize("kind", DIFFERENCES)
def test_intervals_hold_the_true_difference_as_often_as_they_say(seeds: int, kind: str) -> None:
    """4,000 experiments without a difference, and intervals of 95 %. Percentile bootstrap has fewer."""
    differences = DIFFERENCES[kind](np.random.default_rng(11), (4000, seeds))
    _, low, high = few_seeds.mean_band(differences.T)
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.97
    if seeds == 10:
        bootstrap = stats.bootstrap(
            (differences[:500],), np.mean, axis=1, method="percentile", n_resamples=1000, rng=0, batch=50
        ).confidence_interval
        assert np.mean((bootstrap.low <= 0) & (bootstrap.high >= 0)) < 0.93


@pytest.mark.parametrize("seeds", [10, 20])
def test_intervals_of_a_ratio_hold_the_true_ratio_as_often_as_they_say(seeds: int) -> None:
    """Costs that vary by a third from seed to seed, most of it in the same way in both variants."""
    rng = np.random.default_rng(12)
    shared = rng.lognormal(sigma=0.3, size=(4000, seeds))
    ours, theirs = (scale * shared * rng.lognormal(sigma=0.15, size=shared.shape) for scale in (1.2, 1.0))
    found = [few_seeds.relative_difference(*pair) for pair in zip(ours, theirs, strict=True)]
    assert 0.93 <= np.mean([one.low <= 20 <= one.high for one in found]) <= 0.97


def test_holms_correction_of_an_example() -> None:
    """Four hypotheses: the smallest p-value counts four times, the next three times, and so on; none becomes
    less than one before it."""
    assert few_seeds.holm([0.03, 0.005, 0.04, 0.01]) == pytest.approx([0.06, 0.02, 0.06, 0.03])
    assert few_seeds.holm([0.5, 0.9]) == [1.0, 1.0]
    assert few_seeds.holm([]) == []


def test_verdicts_of_a_table_are_rarely_wrong_together() -> None:
    """Ten questions without a difference: without the correction four of ten tables would have a verdict."""
    differences = np.random.default_rng(13).normal(size=(1000, 10, 10))
    corrected = single = 0
    for table in differences:
        found = [few_seeds.mean(row) for row in table]
        single += any(one.p < 0.05 for one in found)
        told = cells.verdicts([cells.Difference(one, 10) for one in found])
        corrected += any(one != "no difference shown" for one in told)
    assert single > 300
    assert 25 <= corrected <= 65


def test_a_relative_difference_keeps_seeds_paired() -> None:
    scores = np.array([1.0, 2.0, 6.0])
    doubled = few_seeds.relative_difference(2 * scores, scores)
    assert (doubled.value, doubled.low, doubled.high) == (100, 100, 100)
    assert few_seeds.relative_difference(scores, scores + 1).value == pytest.approx(100 * (3 / 4 - 1))


def test_seeds_stay_paired(rng: np.random.Generator) -> None:
    """A constant difference has no uncertainty, however much the seeds differ among themselves."""
    others = rng.normal(0, 100, 6)
    found = few_seeds.paired_difference(others + 1, others)
    assert (found.low, found.high) == pytest.approx((1, 1))
    assert found.p < 1e-6
    assert few_seeds.paired_difference(others, others).p == 1


def test_one_seed_has_no_interval() -> None:
    found = few_seeds.mean(np.array([3.0]))
    assert found.value == 3.0
    assert math.isnan(found.low)
    assert math.isnan(found.p)


def test_bands_are_the_means_of_the_columns(rng: np.random.Generator) -> None:
    curves = rng.normal(size=(10, 4)) + np.arange(4)
    middle, low, high = few_seeds.mean_band(curves)
    assert middle == pytest.approx(curves.mean(axis=0))
    for column in range(4):
        interval = few_seeds.mean(curves[:, column])
        assert (low[column], high[column]) == pytest.approx((interval.low, interval.high))


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


@pytest.mark.parametrize("repeats", [25, 32])
def test_split_half_of_many_repeats_is_a_mean_over_some_halves(
    rng: np.random.Generator, repeats: int
) -> None:
    """By Spearman-Brown's formula, halves correlate as much as their size times the measurements do."""
    values = rng.normal(size=(300, 1)) + rng.normal(scale=3, size=(300, repeats))
    share, half = intraclass_correlation(values), repeats // 2
    expected = half * share / (1 + (half - 1) * share)
    assert split_half(values) == pytest.approx(expected, abs=0.03)
    assert split_half(values) == split_half(values)


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


def test_the_comma_of_thousands_is_not_the_one_between_limits() -> None:
    assert cells.interval(few_seeds.Interval(3, 2, 4, 0.5)) == "3.0 [2.0, 4.0]"
    wide = few_seeds.Interval(291, -1998, 2580, 0.5)
    assert cells.interval(wide, sign=True, unit=" %") == "+291.0 % [-1,998 to +2,580]"
