"""Building the environment of several agents that a job names."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from nitro_actor import entry_points, traces
from nitro_actor.agents import smax
from nitro_actor.agents.mpe import scenarios
from nitro_actor.agents.mpe.engine import MpeEngine
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError, NotInstalled
from nitro_actor.engines.failures import unbuildable
from nitro_actor.engines.info_metrics import InfoMetrics
from nitro_actor.environment import Environment


def make_by_id(config: EnvironmentConfig) -> Environment:
    """Build package/module, whose module has PettingZoo's `parallel_env`.

    Raises:
        EnvironmentConfigError: it does not exist, cannot be built, or its spaces are not supported.
    """
    factory = factory_by_id(config)
    if factory is None:
        return Environment(MpeEngine(config.id, config.count, config.kwargs), config)
    return make_agents(config, factory, None)


def factory_by_id(config: EnvironmentConfig) -> Callable[[], Any] | None:
    """How to make one copy of package/module; None where our own engine computes it. Errors as
    `make_by_id`."""
    if not config.info_metrics and scenarios.supports(config.id, config.kwargs):
        return None
    package, _, name = config.id.rpartition("/")
    package = package.replace("/", ".")
    if not _exists(package):
        raise NotInstalled(
            f"environment {config.id} needs the package {package}, which is not installed; "
            f"{entry_points.where_to_install(package)}"
        )
    if not _exists(f"{package}.{name}"):
        raise EnvironmentConfigError(f"environment {config.id}: the package {package} has no module {name}")
    parallel_env = _parallel_env(config.id, f"{package}.{name}")
    return lambda: parallel_env(**config.kwargs)


def _parallel_env(id_: str, module: str) -> Callable[..., Any]:
    """The function of an environment's module that makes it in PettingZoo's parallel interface.

    Raises:
        EnvironmentConfigError: there is none, or the module cannot be imported.
    """
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        raise entry_points.package_missing(id_, error) from error
    except BaseException as error:  # a module may raise anything on import
        if not traces.of_its_code(error):
            raise
        raise EnvironmentConfigError(
            f"environment {id_} cannot be built: importing {module} raised {traces.words(error)}"
            f"{traces.raised_at(error)}"
        ) from error
    made: Callable[..., Any] | None = getattr(loaded, "parallel_env", None)
    if made is not None:
        return made
    if not hasattr(loaded, "env"):
        raise EnvironmentConfigError(f"environment {id_}: the module {module} has no parallel_env")
    raise EnvironmentConfigError(
        f"environment {id_} is an AEC environment, in which agents take turns: {module} has no parallel_env. "
        "Choose an environment whose agents act at the same time, or write an entryPoint that makes a "
        "ParallelEnv of this one"
    )


def make_smax(config: EnvironmentConfig, map_name: str) -> Environment:
    """Build a map of SMAX.

    Raises:
        EnvironmentConfigError: there is no such map, it was given arguments, or JAX is not installed.
    """
    if map_name not in smax.MAPS:
        known = " or ".join(f"smax/{name}" for name in smax.MAPS)
        raise EnvironmentConfigError(f"environment {config.id} does not exist; set environment.id: {known}")
    if config.info_metrics:
        raise EnvironmentConfigError(
            f"environment {config.id} gives no infos; remove environment.infoMetrics"
        )
    if config.kwargs:
        raise EnvironmentConfigError(
            f"environment {config.id} takes no arguments, but has {sorted(config.kwargs)}; remove "
            "environment.kwargs"
        )
    if not all(map(_exists, ("jax", "flatbuffers"))):
        raise NotInstalled(
            f"environment {config.id} needs JAX, which is not installed; use the image nitro-actor-smax, or "
            "in a checkout run pip install './actor-image[smax,smax-source]'"
        )
    from nitro_actor.agents.smax.engine import SmaxEngine

    return Environment(SmaxEngine(map_name, config.count), config, "jax", "jaxmarl")


def make_agents(config: EnvironmentConfig, factory: Callable[[], Any], time_limit: int | None) -> Environment:
    """Build an environment of several agents from a factory of one copy.

    Args:
        factory: makes an environment of PettingZoo's parallel interface, or one whose spaces are tuples.
        time_limit: steps after which an episode is cut, None for no limit.

    Raises:
        EnvironmentConfigError: it cannot be built, or its spaces are not supported.
    """

    # Imported here: gymnasium takes long to load, and the fast engines do not need it.
    from nitro_actor.agents.parallel import ParallelEngine
    from nitro_actor.agents.tuples import TupleEnvironment

    def make() -> Any:
        environment = factory()
        np.seterr(all="ignore")  # from here on it is ours
        return environment if hasattr(environment, "possible_agents") else TupleEnvironment(environment)

    try:
        engine = ParallelEngine(make, config.count, time_limit)
    except EnvironmentConfigError:  # it already says everything
        raise
    except BaseException as error:
        if not traces.of_its_code(error):
            raise
        raise unbuildable(config, error) from error
    if config.info_metrics:
        engine.info = InfoMetrics(config.info_metrics)
    return Environment(engine, config, "gymnasium", "pettingzoo", config.id.partition("/")[0])


def _exists(module: str) -> bool:
    """Whether a module can be found. Errors of its import are reported elsewhere."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
