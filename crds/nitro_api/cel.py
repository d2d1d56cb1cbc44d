"""Expressions in CEL, evaluated by Google's C++ library, with the functions of Kubernetes' API server that
rules use."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nitro_api.quantities import QUANTITY_PATTERN, compare

if TYPE_CHECKING:
    from cel_expr_python.cel import Env, Expression

_lock = threading.Lock()
"""The library leaves Python's own lock while it evaluates, and makes its runtime at the first evaluation."""


def truths(expressions: Sequence[str], value: dict[str, Any]) -> list[bool]:
    """Whether each of the expressions is true of `value`, which they call self. The value holds only what CEL
    has: texts, integers of 64 bits, floats, booleans, lists and mappings.

    Raises:
        ValueError: an expression cannot be evaluated, or is neither true nor false.
    """
    with _lock:
        facts = _environment().Activation({"self": value})
        values = [_program(expression).eval(facts).value() for expression in expressions]
    for expression, truth in zip(expressions, values, strict=True):
        if not isinstance(truth, bool):
            raise ValueError(f"{expression} is neither true nor false, but {truth}")
    return values


@functools.cache
def _program(expression: str) -> Expression:
    # The API server checks the types when it takes the CRD. Here the check would double the time.
    return _environment().compile(expression, disable_check=True)


@functools.cache
def _environment() -> Env:
    # Whoever only imports the models needs none of the library's 14 MB.
    from cel_expr_python import cel

    def function(name: str, returns: cel.Type, impl: Any, *takes: cel.Type, member: bool = False) -> Any:
        overload = cel.Overload(name, returns, list(takes), is_member=member, impl=impl)
        return cel.FunctionDecl(name, [overload])

    text = cel.Type.STRING
    # A quantity is its text.
    return cel.NewEnv(
        variables={"self": cel.Type.DYN},
        functions=[
            function("isQuantity", cel.Type.BOOL, lambda it: bool(re.fullmatch(QUANTITY_PATTERN, it)), text),
            function("quantity", text, str, text),
            function("compareTo", cel.Type.INT, compare, text, text, member=True),
            function("isGreaterThan", cel.Type.BOOL, lambda a, b: compare(a, b) > 0, text, text, member=True),
        ],
    )
