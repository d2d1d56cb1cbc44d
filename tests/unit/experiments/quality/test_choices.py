"""Which rounds to boost: statistics, an oracle and chance over the same measured gains."""

import numpy as np
import pytest

from nitro_experiments.quality.choices import boosted, choices
from nitro_experiments.statistics.few_seeds import mean

GAINED = np.array([[1.0, 3.0], [6.0, 8.0], [0.0, -2.0], [4.0, 5.0]])
"""Two seeds; rounds 2 and 4 gain most."""


def test_every_choice_boosts_half_of_the_rounds() -> None:
    right, wrong = [4.0, 1.0, 3.0, 2.0], [1.0, 4.0, 2.0, 3.0]
    measured = {
        "convexity_ratio": np.array([right, wrong, right]).T,
        "lambda_min": np.array([wrong, wrong]).T,
        "kl": np.array([right, right]).T,
    }
    found = choices(measured, GAINED)
    assert list(found) == ["oracle", "oracle in hindsight", "convexity_ratio", "lambda_min", "chance"]
    assert found["oracle in hindsight"].gained.value == 11.5
    assert found["oracle"].gained.value == 11.5
    assert found["chance"].gained.value == pytest.approx(2 * GAINED.mean())
    assert found["lambda_min"].gained.value == 1.0
    ratio = found["convexity_ratio"]
    assert ratio.gained.value == 11.5, "the mean of the repeats is right"
    assert ratio.once is not None
    assert ratio.once.value == pytest.approx((2 * 11.5 + 1.0) / 3)
    assert boosted(np.zeros((7, 2))) == 3


def test_an_oracle_gains_nothing_where_gains_are_noise_alone() -> None:
    """It chooses by other seeds. In hindsight it would take noise for gain."""
    noise = np.random.default_rng(0).normal(0, 1, (300, 20, 4))
    found = [choices({}, gained) for gained in noise]
    oracle, hindsight = (
        mean(np.array([one[name].gained.value for one in found]))
        for name in ("oracle", "oracle in hindsight")
    )
    assert oracle.low < 0 < oracle.high
    assert hindsight.low > 3
