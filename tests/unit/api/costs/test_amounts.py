"""Amounts as text: parts add up to their total, and no part reads as nothing which is something."""

from decimal import Decimal

import pytest

from nitro_api.costs.amounts import dollars


def number(text: str) -> Decimal:
    return Decimal(text.removeprefix("$").replace(",", ""))


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ((0.00312, 0.000028), ("$0.00315", "$0.00312", "$0.00003")),
        ((0.25, 0.5), ("$0.7500", "$0.2500", "$0.5000")),
        ((0.0, 0.0), ("$0.0000", "$0.0000", "$0.0000")),
        ((1234.56784, 0.00004), ("$1,234.56788", "$1,234.56784", "$0.00004")),
        ((0.00014, 0.00014), ("$0.0003", "$0.0001", "$0.0002")),
        ((0.3, 1e-12), ("$0.30000000", "$0.30000000", "$0.00000000")),
        ((0.0123,), ("$0.0123", "$0.0123")),
    ],
)
def test_amounts_have_the_decimals_that_their_smallest_part_needs(
    parts: tuple[float, ...], shown: tuple[str, ...]
) -> None:
    found = dollars(*parts)
    assert sorted(found) == sorted(shown)
    assert found[0] == shown[0]
    assert number(found[0]) == sum(number(part) for part in found[1:])


def test_parts_of_any_size_add_up() -> None:
    for k in range(1, 400):
        parts = (k * 0.0000371, k * 0.0000049, 0.00031 / k)
        total, *each = dollars(*parts)
        assert number(total) == sum(number(part) for part in each)
        assert float(number(total)) == pytest.approx(sum(parts), abs=10.0 ** -len(total.partition(".")[2]))
