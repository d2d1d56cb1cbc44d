"""Ids of environments of several agents, package/module: what this machine knows of them.

The environments are imported only for such ids: they need numpy, which takes long to load.
"""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil

from nitro_actor.agents import smax
from nitro_api.base import matches
from nitro_api.rules.agents_rules import SEVERAL_AGENTS

_SMAX = [f"smax/{name}" for name in smax.MAPS]


def is_one(id: str) -> bool:
    """Whether it is the id of an environment of several agents."""
    return matches(SEVERAL_AGENTS, id)


def installed(id: str) -> bool:
    """Whether the environment's package is installed here, or it needs none."""
    return id in _scenarios() or _package("jax/smax" if id in _SMAX else id) is not None


def mistake(id: str) -> str | None:
    """What is wrong with the id; None where no mistake is known.

    Either its package is installed here and has no such module, or the id is nearly one that needs no
    package.
    """
    scenarios = _scenarios()
    if id in scenarios or id in _SMAX:
        return None
    if id.startswith("smax/"):
        return f"must be {' or '.join(_SMAX)}; correct it"
    path = _package(id)
    package, _, name = id.rpartition("/")
    known = {scenario.rpartition("/")[2] for scenario in scenarios if scenario.startswith(f"{package}/")}
    if path is not None:
        known |= {module.name for module in pkgutil.iter_modules(path)}
        if name in known:
            return None
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    if close:
        return f"must be a module of {package}; did you mean {package}/{close[0]}?"
    if path is not None:
        return f"must be a module of {package}, which has no {name}; correct it"
    return None


def _scenarios() -> frozenset[str]:
    """The ids of the scenarios that our own engine computes."""
    from nitro_actor.agents.mpe.scenarios import SCENARIOS

    return frozenset(SCENARIOS)


def _package(id: str) -> list[str] | None:
    """Where the id's package lies on this machine; None where it is not installed."""
    package = id.rpartition("/")[0].replace("/", ".")
    try:
        module = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    return list(module.submodule_search_locations or []) if module else None
