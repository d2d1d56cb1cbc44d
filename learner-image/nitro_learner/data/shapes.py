"""Checks of shapes where arrays and tensors enter an algorithm: broadcasting would hide that one is wrong."""

from collections.abc import Mapping
from typing import Protocol


class Shaped(Protocol):
    """An array or a tensor."""

    @property
    def shape(self) -> tuple[int, ...]: ...


def check(expected: tuple[int, ...], like: str, given: Mapping[str, Shaped]) -> None:
    """Make sure that arrays or tensors have a shape.

    Args:
        expected: the shape.
        like: what has it, for the message.
        given: what is checked, by name.

    Raises:
        ValueError: one of them has another shape.
    """
    for name, array in given.items():
        if array.shape != expected:
            raise ValueError(f"{name} has the shape {tuple(array.shape)}, but {like} {tuple(expected)}")
