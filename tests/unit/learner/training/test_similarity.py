"""Distances between agents: symmetry, and densities of what they saw and did."""

import numpy as np
import pytest

from nitro_learner.training.sharing.similarity import densities, symmetrised


def test_distances_are_the_mean_of_both_directions() -> None:
    found = symmetrised(np.array([[1e-17, 1.0], [3.0, 0.0]]))
    assert found.tolist() == [[0.0, 2.0], [2.0, 0.0]]


def test_densities_equal_a_recomputation_by_hand() -> None:
    generator = np.random.default_rng(0)
    samples = [generator.normal(mean, 1.0, (300, 1)) for mean in (0.0, 0.0, 1.0)]
    spread = np.concatenate(samples).std()

    def log_density(points: np.ndarray, data: np.ndarray) -> np.ndarray:
        width = data.std(ddof=1) * len(data) ** -0.2  # Scott's, of one dimension
        kernels = np.exp(-((points[:, None] - data) ** 2) / (2 * width**2))
        return np.log(kernels.mean(axis=1) / (width * np.sqrt(2 * np.pi)))

    flat = [one[:, 0] / spread for one in samples]
    expected = [[(log_density(p, p) - log_density(p, q)).mean() for q in flat] for p in flat]
    found = densities(samples, [0])
    assert found == pytest.approx(np.array(expected), abs=1e-4)
    assert found[0, 1] < 0.1 < 0.4 < found[0, 2]


def test_a_feature_of_any_unit_counts_the_same() -> None:
    generator = np.random.default_rng(0)
    samples = [generator.normal(mean, 1.0, (200, 3)) for mean in (0.0, 1.0)]
    scaled = [one * np.array([1.0, 1e6, 1e-6]) for one in samples]
    assert densities(scaled, [0]) == pytest.approx(densities(samples, [0]), rel=1e-6)


def test_samples_on_a_line_and_equal_samples_have_finite_distances() -> None:
    line = np.linspace(0, 1, 64)[:, None] * np.ones(5)
    found = densities([line, line + 0.5], [0])
    assert np.isfinite(found).all()
    assert found[0, 1] > 0.1
    constant = np.ones((64, 5))
    assert densities([constant, constant], [0]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_equal_seeds_give_equal_distances() -> None:
    samples = [np.random.default_rng(seed).normal(size=(64, 9)) for seed in range(3)]
    assert (densities(samples, [7]) == densities(samples, [7])).all()
