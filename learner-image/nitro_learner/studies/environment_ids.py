"""Whether the environment that a job names by its id is registered, as far as this machine knows.

It knows the Atari games where ale-py is installed, gymnasium's ids where gymnasium is, and PettingZoo's
environments where their package is. The actors may know more: a package in their image can register
environments whenever gymnasium is loaded.
"""

import ast
import difflib
import importlib.util
import pkgutil
import re
from functools import cache
from pathlib import Path

from nitro_actor.agents import smax
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines import ale
from nitro_api import FieldError
from nitro_api.base import matches
from nitro_api.rules.agents_rules import SEVERAL_AGENTS
from nitro_api.spec.job import GivenSpec

PATH = "spec.environment.id"
_ATARI = "ALE/"
_VERSION = re.compile(r"-v\d+$")
_SMAX = [f"smax/{name}" for name in smax.MAPS]


def of_several_agents(id: str) -> bool:
    """Whether it is the id of an environment of several agents."""
    return matches(SEVERAL_AGENTS, id)


def mistakes(spec: GivenSpec) -> list[FieldError]:
    """Mistakes in an id that the actors do not know either.

    Such an id names a game that does not exist, or it is nearly a known id and the job names no actor image
    of its own.
    """
    id = spec.environment.id
    if spec.environment.entry_point is not None or id is None:
        return []
    if id.startswith(_ATARI):
        return _wrong_game(id)
    if of_several_agents(id):
        wrong = None if _own_image(spec) else _mistake(id)
        return [FieldError(PATH, id, wrong)] if wrong else []
    if not _unregistered(id) or _own_image(spec) or not (close := _nearest(id)):
        return []
    remedy = (
        f"did you mean {close}? One of your own needs entryPoint, or its module in front: my_package:{id}"
    )
    return [FieldError(PATH, id, f"must be an id that gymnasium knows; {remedy}")]


def doubts(spec: GivenSpec) -> list[str]:
    """A sentence for an id that is not registered here, but may be registered where the actors run."""
    id = spec.environment.id
    if spec.environment.entry_point is not None or id is None or id.startswith(_ATARI):
        return []
    if of_several_agents(id):
        if _installed(id) or mistakes(spec):
            return []
        return [f"{PATH}: the package of {id} is not installed here, so the actors' image must have it"]
    if not _unregistered(id) or mistakes(spec):
        return []
    close = _nearest(id)
    hint = f"; did you mean {close}?" if close else "; without that no actor starts"
    return [f"{PATH}: {id} is not registered here, so the actors' image must register it{hint}"]


def _wrong_game(id: str) -> list[FieldError]:
    if importlib.util.find_spec("ale_py") is None:
        return []
    try:
        ale.rom(id.removeprefix(_ATARI))
    except EnvironmentConfigError as error:
        return [FieldError(PATH, id, str(error))]
    return []


def _unregistered(id: str) -> bool:
    """Whether gymnasium is installed here and does not have the id.

    False for an id with a module in front: gymnasium imports the module first, and it may register anything.
    """
    if ":" in id or importlib.util.find_spec("gymnasium") is None:
        return False
    if id in _own_ids():
        return False
    import gymnasium  # here: it takes long to load, and other packages may have registered the id

    return id not in gymnasium.registry


@cache
def _own_ids() -> frozenset[str]:
    """The ids that gymnasium's own source registers, read without importing it."""
    module = importlib.util.find_spec("gymnasium")
    if module is None or module.origin is None:
        return frozenset()
    source = Path(module.origin).parent / "envs" / "__init__.py"
    if not source.is_file():
        return frozenset()
    calls = (node.value for node in ast.parse(source.read_bytes()).body if isinstance(node, ast.Expr))
    return frozenset(
        keyword.value.value
        for call in calls
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "register"
        for keyword in call.keywords
        if keyword.arg == "id" and isinstance(keyword.value, ast.Constant)
        if isinstance(keyword.value.value, str)
    )


def _nearest(id: str) -> str | None:
    """The newest version of the registered environment whose name is nearest, in the same namespace."""
    import gymnasium

    namespace = id.rpartition("/")[0]
    versions: dict[str, str] = {}
    for registered in sorted(gymnasium.registry.values(), key=lambda registered: registered.version or 0):
        if (registered.namespace or "") == namespace:
            versions[_VERSION.sub("", registered.id)] = registered.id
    name = _VERSION.sub("", id)
    close = difflib.get_close_matches(name, versions, n=1, cutoff=0.75)
    return versions[close[0]] if close else None


def _own_image(spec: GivenSpec) -> bool:
    """Whether the actors run in an image that the job names."""
    function = spec.backend.lambda_
    return spec.actor.image is not None or (function is not None and function.image is not None)


def _installed(id: str) -> bool:
    """Whether the environment's package is installed here, or it needs none."""
    return id in _scenarios() or _package("jax/smax" if id in _SMAX else id) is not None


def _mistake(id: str) -> str | None:
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
    from nitro_actor.agents.mpe.scenarios import SCENARIOS  # needs numpy, which takes long to load

    return frozenset(SCENARIOS)


def _package(id: str) -> list[str] | None:
    """Where the id's package lies on this machine; None where it is not installed."""
    package = id.rpartition("/")[0].replace("/", ".")
    try:
        module = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    return list(module.submodule_search_locations or []) if module else None
