"""Durations and quantities."""

from __future__ import annotations

import pytest

from nitro_api.quantities import amount_of, compare, multiplied, seconds_of


def test_durations_and_quantities() -> None:
    assert [seconds_of(text) for text in ("45s", "90m", "2h30m", "1h1m1s")] == [45, 5400, 9000, 3661]
    amounts = [amount_of(text) for text in ("1Gi", "500m", "1.5", "2e3", 7, "100n")]
    assert amounts == pytest.approx([2**30, 0.5, 1.5, 2000, 7, 1e-7])
    pairs = [("1100m", "1.1"), ("1025Mi", "1Gi"), ("1.5Gi", "1537Mi"), ("1e3", "1k"), ("-1", "0")]
    assert [compare(*pair) for pair in pairs] == [0, 1, -1, 0, -1]
    for wrong in ("", "1d", "h", "5", "2h 30m"):
        with pytest.raises(ValueError, match="is not a duration"):
            seconds_of(wrong)
    for wrong in ("1 GB", "1e400"):  # the second one is more than a float can hold
        with pytest.raises(ValueError, match="is not a quantity"):
            amount_of(wrong)


@pytest.mark.parametrize("quantity", ["250m", "512Mi", "1.5", ".5Gi", "1.", "2E", "1e3", "3E2", "+4k", 7])
def test_a_multiple_of_a_quantity_is_exact_and_one_itself(quantity: int | str) -> None:
    found = multiplied(quantity, 8)
    assert amount_of(found) == 8 * amount_of(quantity)
    assert multiplied(quantity, 1) == quantity or amount_of(multiplied(quantity, 1)) == amount_of(quantity)


def test_no_multiple_of_what_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        multiplied("much", 2)
