"""Amounts of money as text: parts that stand beside a total add up to it."""

import math

_FEWEST, _MOST = 4, 8
"""Decimals of an amount."""


def dollars(*parts: float) -> tuple[str, ...]:
    """The total of the parts, and each of them: "$0.00315", "$0.00312", "$0.00003".

    They have so many decimals that no part reads as nothing which is something. The parts are rounded so that
    they add up to the rounded total: those that lose most are rounded up.
    """
    smallest = min((part for part in parts if part > 0), default=1.0)
    decimals = min(max(_FEWEST, math.ceil(-math.log10(smallest))), _MOST)
    units = [part * 10**decimals for part in parts]
    floors = [math.floor(unit) for unit in units]
    total = round(math.fsum(units))
    by_loss = sorted(range(len(units)), key=lambda index: floors[index] - units[index])
    for index in by_loss[: total - sum(floors)]:
        floors[index] += 1
    return tuple(f"${amount / 10**decimals:,.{decimals}f}" for amount in (total, *floors))
