"""Building the environment that a job names: a gymnasium or PettingZoo id, an Atari game, or an entry point.

`nitro_actor.spaces` says which spaces an environment may have. One that does not fit is refused here, before
the first round, wherever that is possible.
"""

from __future__ import annotations

import contextvars
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nitro_actor import entry_points, traces
from nitro_actor.config import AtariConfig, EnvironmentConfig, EnvironmentConfigError, NotInstalled
from nitro_actor.engines import tasks
from nitro_actor.engines.failures import close, unbuildable
from nitro_actor.engines.info_metrics import InfoMetrics
from nitro_actor.environment import Environment

_PACKAGES = "gymnasium", "mujoco"
"""Those that compute environments of one agent."""

_ATARI = "ALE/"
SMAX = "smax/"
PETTING_ZOO = re.compile("[A-Za-z_][A-Za-z0-9_.]*(/[A-Za-z_][A-Za-z0-9_]*)+_v[0-9]+")
"""Ids of environments of several agents: package/module, of a module that has `parallel_env`. Those of
gymnasium end in `-v0`."""


def make_env(config: EnvironmentConfig) -> Environment:
    """Build an environment: by a fast engine where there is one, else by the generic one.

    Raises:
        EnvironmentConfigError: it does not exist, cannot be built, or its spaces are not supported.
    """
    # What its code sets there, such as NumPy's error state, must not become the caller's.
    environment = contextvars.copy_context().run(_make, config)
    if config.rescale_actions:
        environment.rescale_actions()
    return environment


def with_kwargs(config: EnvironmentConfig) -> Callable[[Mapping[str, Any], int], Environment]:
    """How to build so many copies of the environment with some other keyword arguments; see `make_env`."""
    return lambda kwargs, count: make_env(replace(config, kwargs={**config.kwargs, **kwargs}, count=count))


def _make(config: EnvironmentConfig) -> Environment:
    if config.entry_point is None and PETTING_ZOO.fullmatch(config.id):
        from nitro_actor.agents.make import make_by_id  # only needed for several agents

        return make_by_id(config)
    if config.entry_point is None and config.id.startswith(SMAX):
        from nitro_actor.agents.make import make_smax

        return make_smax(config, config.id.removeprefix(SMAX))
    if config.entry_point is None and config.id.startswith(_ATARI):
        return _make_atari(config)
    # The fast engine gives no info; gymnasium's own environments do.
    fast = not config.info_metrics and config.entry_point is None
    if fast and tasks.supports(config.id, config.kwargs):
        return _make_mujoco(config)
    return _make_generic(config)


def raw_factory(config: EnvironmentConfig) -> Callable[[], Any] | None:
    """How to make one copy as gymnasium or PettingZoo has it; None where an engine computes it by itself.

    Raises:
        EnvironmentConfigError: see `make_env`.
    """
    if config.entry_point is None:
        if PETTING_ZOO.fullmatch(config.id):
            from nitro_actor.agents.make import factory_by_id

            return factory_by_id(config)
        if config.id.startswith((SMAX, _ATARI)) or tasks.supports(config.id, config.kwargs):
            return None
    import gymnasium

    return _factory(config, gymnasium)


def _make_atari(config: EnvironmentConfig) -> Environment:
    from nitro_actor.engines.atari import AtariEngine

    if config.info_metrics:
        raise EnvironmentConfigError(
            f"environment {config.id} gives no infos; remove environment.infoMetrics"
        )
    settings = config.atari or AtariConfig()
    engine = AtariEngine(config.id.removeprefix(_ATARI), config.count, settings, config.kwargs)
    return Environment(engine, config, *_PACKAGES)


def _make_mujoco(config: EnvironmentConfig) -> Environment:
    from nitro_actor.engines.mujoco import MujocoEngine  # loads MuJoCo, which not every environment needs

    try:
        engine = MujocoEngine(tasks.TASKS[config.id], config.count, config.kwargs)
    except Exception as error:
        raise unbuildable(config, error) from error
    return Environment(engine, config, *_PACKAGES)


def _make_generic(config: EnvironmentConfig) -> Environment:
    import gymnasium  # here: it takes long to load, and the fast engines do without

    from nitro_actor import spaces
    from nitro_actor.engines import masked
    from nitro_actor.engines.generic import GenericEngine

    try:
        make = _factory(config, gymnasium)
        probe: Any = make()
        _require_environment(config, probe, gymnasium)
    except EnvironmentConfigError:
        raise
    except gymnasium.error.UnregisteredEnv as error:  # before any of the user's code has run
        raise NotInstalled(
            f"environment {config.id} cannot be built: {type(error).__name__}: {error} "
            "Give a registered id, such as Hopper-v5 or ALE/Pong-v5, or an entryPoint"
        ) from None
    except BaseException as error:
        if not traces.of_its_code(error):
            raise
        raise unbuildable(config, error) from error
    factory, time_limit = make, None
    if type(probe) is gymnasium.wrappers.TimeLimit:  # a derived class may do more than count steps
        probe, time_limit = probe.env, probe._max_episode_steps

        def factory() -> Any:
            return make().env

    np.seterr(all="ignore")  # from here on it is ours
    if _several_agents(probe, gymnasium):
        from nitro_actor.agents.make import make_agents

        close(probe, 0)
        return make_agents(config, factory, time_limit)
    probe = masked.apart(probe)
    dtype = "float32"
    if not spaces.is_flattened(probe.observation_space):
        dtype = spaces.observation_dtype(
            probe.observation_space, ", for example in gymnasium.wrappers.TransformObservation"
        )
    action = spaces.actions(probe.action_space, ", for example in gymnasium.wrappers.TransformAction")
    has_mask = masked.has(probe, action)
    close(probe, 0)
    try:
        engine = GenericEngine(factory, config.count, dtype, action, masked=has_mask, time_limit=time_limit)
        engine.reset([0] * config.count)  # check the space before the first round
        if config.info_metrics:
            engine.info = InfoMetrics(config.info_metrics)
    except BaseException as error:
        if not traces.of_its_code(error):
            raise
        raise unbuildable(config, error) from error
    return Environment(engine, config, *_PACKAGES)


def _several_agents(environment: Any, gymnasium: Any) -> bool:
    """Whether it has PettingZoo's interface, or a tuple of spaces, one for each agent."""
    if hasattr(environment, "possible_agents"):
        return True
    return isinstance(environment.action_space, gymnasium.spaces.Tuple)


def _require_environment(config: EnvironmentConfig, made: Any, gymnasium: Any) -> None:
    """Refuse what an entry point made if it is no environment."""
    if not isinstance(made, gymnasium.Env) and not hasattr(made, "possible_agents"):
        raise EnvironmentConfigError(
            f"{config.entry_point} made a {type(made).__name__}; it must make a gymnasium.Env, or a "
            "ParallelEnv of PettingZoo for several agents"
        )


def _factory(config: EnvironmentConfig, gymnasium: Any) -> Callable[[], Any]:
    """How to make one copy, with all of its wrappers."""
    if config.entry_point is not None:
        attribute = entry_points.load(config.entry_point)
        return lambda: attribute(**config.kwargs)
    module, separator, name = config.id.rpartition(":")
    if separator:
        try:
            importlib.import_module(module)  # the import registers the environment
        except ModuleNotFoundError as error:
            raise entry_points.package_missing(config.id, error) from error
    spec = gymnasium.spec(name)
    kwargs = dict(config.kwargs)
    limit = _time_limit(kwargs.pop("max_episode_steps", spec.max_episode_steps))
    if limit is None:
        limit = -1  # as gymnasium writes it; wrappers that the id is registered with may ask for the limit
    return lambda: gymnasium.make(name, max_episode_steps=limit, disable_env_checker=True, **kwargs)


def _time_limit(steps: Any) -> int | None:
    """The time limit in kwargs.max_episode_steps; below 0 is no limit, as in gymnasium."""
    if steps is None or (type(steps) is int and steps < 0):
        return None
    if type(steps) is not int or steps == 0:
        raise EnvironmentConfigError(
            f"max_episode_steps is {steps!r}; it must be a whole number of steps, or -1 for no limit"
        )
    return steps
