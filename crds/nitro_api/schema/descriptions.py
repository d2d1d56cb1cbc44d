"""Descriptions of a model's fields, from the docstrings below them.

They are read from the source when a schema is made. pydantic would read them when each class is made, which
makes every import of nitro_api slower.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from nitro_api.algorithms.registry import (
    RECORDS,
    TEAM_RECORDS,
    AnyHyperparameters,
    TeamHyperparameters,
    owners_of,
)
from nitro_api.base import Model

_UNIONS = {AnyHyperparameters: RECORDS, TeamHyperparameters: TEAM_RECORDS}


def descriptions(model: type[Model]) -> dict[str, str]:
    """The description of each field of a model by its name, bases included. A setting of several algorithms
    has the description of the first one, and says which algorithms have it."""
    if model not in _UNIONS:
        classes = [each for each in reversed(model.__mro__) if issubclass(each, Model)]
        return {name: text for each in classes for name, text in _own(each).items()}
    records = _UNIONS[model]
    found: dict[str, str] = {}
    for record in records.values():
        for name, text in descriptions(record.hyperparameters).items():
            before, default, rest = text.partition("Default:")
            owners = ", ".join(owners_of(model.model_fields[name].alias or name, records))
            found.setdefault(name, f"{before}Algorithms: {owners}. {default}{rest}".rstrip())
    return found


def _own(model: type[Model]) -> dict[str, str]:
    """Descriptions of the fields that the class itself declares."""
    body = _classes(model.__module__).get(model.__name__, ())
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """The bodies of a module's classes by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
