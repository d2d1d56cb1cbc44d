"""Rules of where pods may run: keys of labels, tolerations, and conditions on nodes and other pods."""

from __future__ import annotations

from nitro_api.base import Rule, declare, set_to
from nitro_api.spec.placement import (
    KEY_PATTERN,
    LabelRequirement,
    LabelSelector,
    NodeRequirement,
    Toleration,
)

_NUMBER = "^[0-9]+$"


def label_keys(path: str) -> Rule:
    """The rule that the keys of the mapping at `path`, if there is one, are those of labels."""
    return Rule(
        path=path,
        cel=f"!has(self.{path}) || self.{path}.all(key, key.matches(r'{KEY_PATTERN}'))",
        sentence="must have keys like team or example.com/team: at most 63 letters, digits, -, _ and ., "
        "a letter or digit at both ends; correct them",
    )


declare(LabelSelector, label_keys("matchLabels"))


def _values(*operators: str) -> Rule:
    return Rule(
        path="values",
        cel=f"(self.operator in {list(operators)}) == (has(self.values) && self.values.size() > 0)",
        sentence=f"must be given with {', '.join(operators)}, and with no other operator; add or remove it",
    )


declare(LabelRequirement, _values("In", "NotIn"))
declare(
    NodeRequirement,
    _values("In", "NotIn", "Gt", "Lt"),
    Rule(
        path="values",
        cel="!(self.operator in ['Gt', 'Lt']) || !has(self.values) "
        f"|| self.values.size() == 1 && self.values[0].matches('{_NUMBER}')",
        sentence="must be one whole number with Gt and Lt; write it as ['8']",
    ),
)
declare(
    Toleration,
    Rule(
        path="operator",
        cel="has(self.key) || self.operator == 'Exists'",
        sentence="must be Exists without a key; name the key or set operator: Exists",
    ),
    Rule(
        path="value",
        cel="!has(self.value) || self.operator == 'Equal'",
        sentence="is only allowed with operator: Equal; remove it or set operator: Equal",
    ),
    Rule(
        path="tolerationSeconds",
        cel=f"!has(self.tolerationSeconds) || {set_to('effect', 'NoExecute')}",
        sentence="is only allowed with effect: NoExecute; remove it or set effect: NoExecute",
    ),
)
