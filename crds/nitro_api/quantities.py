"""Durations (`2h30m`) and Kubernetes quantities (`512Mi`)."""

import functools
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$"
)
_FACTORS: dict[str, int | Fraction] = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "n": Fraction("1e-9"), "u": Fraction("1e-6"), "m": Fraction("1e-3"),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18, "": 1,
}  # fmt: skip
"""What the suffix of a quantity multiplies it by."""

QUANTITY_SCHEMA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "pattern": QUANTITY_PATTERN,
    "maxLength": 64,
}
Quantity = Annotated[
    int | Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=64)], WithJsonSchema(QUANTITY_SCHEMA)
]
"""An amount as Kubernetes writes it: an integer, or text such as `500m`, `1.5` or `2Gi`."""


def seconds_of(duration: str) -> float:
    """Length of `2h30m`, `90m` or `45s` in seconds. Raises ValueError for anything else."""
    match = re.fullmatch(DURATION_PATTERN, duration)
    if not match or not duration:
        raise ValueError(f"{duration!r} is not a duration such as 90m or 2h30m")
    hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in match.groups())
    return 3600.0 * hours + 60.0 * minutes + seconds


def amount_of(quantity: int | str) -> float:
    """A Kubernetes quantity as a number: bytes for `512Mi`, cores for `500m`. Raises ValueError."""
    return _amount_of(str(quantity))


@functools.lru_cache(maxsize=1024)  # the operator asks again and again for the few that a job's pods have
def _amount_of(text: str) -> float:
    number, factor = _parsed(text)
    return float(number) * float(factor)


def compare(left: str, right: str) -> int:
    """-1, 0 or 1, as the one quantity is less than, equal to or more than the other: 1.1 is 1100m."""
    first, second = (Fraction(number) * factor for number, factor in map(_parsed, (left, right)))
    return (first > second) - (first < second)


def _parsed(text: str) -> tuple[str, int | Fraction]:
    """The number of a quantity and the factor of its suffix. Raises ValueError."""
    if not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity such as 500m or 2Gi")
    suffix = next(suffix for suffix in _FACTORS if text.endswith(suffix))
    return text.removesuffix(suffix), _FACTORS[suffix]


def multiplied(quantity: int | str, factor: int) -> int | str:
    """A quantity times a whole number, in the same unit, without rounding: 250m times 4 is 1000m."""
    if isinstance(quantity, int):
        return quantity * factor
    match = re.fullmatch(QUANTITY_PATTERN, quantity)
    if not match:
        raise ValueError(f"{quantity!r} is not a quantity such as 500m or 2Gi")
    number = quantity[: len(quantity) - len(match[6] or "")]
    return f"{Decimal(number) * factor:f}{match[6] or ''}"
