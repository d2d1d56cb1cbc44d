"""The evaluation of rules in CEL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nitro_api.base import Model, Rule, declare
from nitro_api.cel import truths
from nitro_api.quantities import Quantity


class Pod(Model):
    """A model with what CEL reads otherwise than Python."""

    cpu: Quantity | None = None
    free: dict[str, Any] | None = None


declare(
    Pod,
    Rule("cpu", "!has(self.cpu) || string(self.cpu).size() < 3", "is too long"),
    Rule("free", "!has(self.free) || !('a' in self.free)", "must not have a"),
)


@pytest.mark.parametrize(
    ("expression", "true"),
    [
        ("isQuantity(self.a)", True),
        ("isQuantity(self.b)", False),
        ("isQuantity('1Zi')", False),
        ("quantity(self.a).compareTo(quantity('0.5Gi')) == 0", True),
        ("quantity(self.a).compareTo(quantity('513Mi')) < 0", True),
        ("quantity(self.a).isGreaterThan(quantity('0'))", True),
        ("quantity('0').isGreaterThan(quantity('-1'))", True),
        ("has(self.c) || self.list.exists_one(x, x > 1.5)", True),
        ("self.b.matches('^[a-z]+$') && self.b.contains('u')", True),
        ("self.a == 3", False),
    ],
)
def test_an_expression_means_what_it_means_to_the_api_server(expression: str, true: bool) -> None:
    assert truths([expression], {"a": "512Mi", "b": "much", "list": [1, 2]}) == [true]


@pytest.mark.parametrize("expression", ["self.missing", "self.a", "quantity(self.a).compareTo('1') > 0"])
def test_what_is_neither_true_nor_false_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        truths(["true", expression], {"a": "much"})


def test_amounts_and_free_json_may_hold_what_cel_has_not() -> None:
    with pytest.raises(ValueError, match="is too long"):
        Pod(cpu=2**70)
    with pytest.raises(ValueError, match="must not have a"):
        Pod(free={"a": 10**400})
    assert Pod(cpu=16, free={"b": [10**400, None, {1: 2.5}]}).cpu == 16


def test_threads_may_evaluate_at_the_same_time() -> None:
    expressions = [f"self.n + {i} > {i}" for i in range(50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: truths(expressions, {"n": n}), range(-100, 100)))
    assert found == [[n > 0] * 50 for n in range(-100, 100)]
