"""Building the environment that a job names: a gymnasium id, an Atari game, or an entry point of its own.

Observations must be a Box of floats or uint8, actions a Box of floats or Discrete. What is wrong with an
environment is said here, before the first round, wherever it can be known.
"""

import importlib
import math
import os
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import traces
from nitro_actor.config import AtariConfig, EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines import tasks
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.environment import Environment, EnvironmentSpec

_ATARI = "ALE/"
_IN_AN_IMAGE = ("KUBERNETES_SERVICE_HOST", "AWS_LAMBDA_FUNCTION_NAME")
"""Variables that only a cluster and Lambda set: there the actor's image has to hold the user's code."""


def make_env(config: EnvironmentConfig) -> Environment:
    """Build an environment: by a fast engine where there is one, else by the generic one.

    Raises:
        EnvironmentConfigError: it does not exist, cannot be built, or its spaces are not supported.
    """
    if config.entry_point is None and config.id.startswith(_ATARI):
        return _make_atari(config)
    if config.entry_point is None and tasks.supports(config.id, config.kwargs):
        return _make_mujoco(config)
    return _make_generic(config)


def _make_atari(config: EnvironmentConfig) -> Environment:
    from nitro_actor.engines.atari import MAX_SCREENS, AtariEngine

    settings = config.atari or AtariConfig()
    engine = AtariEngine(config.id.removeprefix(_ATARI), config.count, settings, config.kwargs)
    spec = EnvironmentSpec(
        id=config.id,
        frame_shape=engine.observations.shape[1:],
        observation_dtype="uint8",
        action_size=engine.actions,
        action_low=None,
        action_high=None,
        time_limit=math.ceil(MAX_SCREENS / settings.frame_skip),
        resumable=True,
        frame_stack=config.frame_stack,
    )
    return Environment(engine, spec, clip_rewards=config.clip_rewards)


def _make_mujoco(config: EnvironmentConfig) -> Environment:
    from nitro_actor.engines.mujoco import MujocoEngine  # loads MuJoCo, which not every environment needs

    try:
        engine = MujocoEngine(tasks.TASKS[config.id], config.count, config.kwargs)
    except Exception as error:
        raise _unbuildable(config, error) from error
    low, high = engine.action_bounds
    spec = EnvironmentSpec(
        id=config.id,
        frame_shape=engine.observations.shape[1:],
        observation_dtype="float32",
        action_size=len(low),
        action_low=low,
        action_high=high,
        time_limit=tasks.MAX_EPISODE_STEPS,
        resumable=True,
        frame_stack=config.frame_stack,
    )
    return Environment(engine, spec, clip_rewards=config.clip_rewards)


def _make_generic(config: EnvironmentConfig) -> Environment:
    import gymnasium  # here: it takes long to load, and the fast engines do without

    from nitro_actor.engines.generic import GenericEngine

    try:
        factory, time_limit = _factory(config, gymnasium)
        probe = factory()
    except EnvironmentConfigError:
        raise
    except gymnasium.error.UnregisteredEnv as error:  # nothing of the user's code has run
        raise EnvironmentConfigError(
            f"environment {config.id} cannot be built: {type(error).__name__}: {error} "
            "Give a registered id, such as Hopper-v5 or ALE/Pong-v5, or an entryPoint"
        ) from None
    except (Exception, SystemExit) as error:
        raise _unbuildable(config, error) from error
    dtype = _observation_dtype(probe.observation_space, gymnasium)
    size, low, high = _actions(probe.action_space, gymnasium)
    shape = tuple(probe.observation_space.shape or ())
    if config.frame_stack > 1 and not shape:
        raise EnvironmentConfigError(
            "frameStack needs observations that are vectors or images, not single numbers; set frameStack: 1"
        )
    probe.close()
    try:
        engine = GenericEngine(factory, config.count, dtype)
        engine.reset([0] * config.count)  # a first look at what the space promises, before the first round
    except (Exception, SystemExit) as error:
        raise _unbuildable(config, error) from error
    spec = EnvironmentSpec(
        config.id, shape, dtype, size, low, high, time_limit, engine.resumable, config.frame_stack
    )
    return Environment(engine, spec, clip_rewards=config.clip_rewards)


def _unbuildable(config: EnvironmentConfig, error: BaseException) -> EnvironmentConfigError:
    words = f"{type(error).__name__}: {error}{traces.raised_at(error)}"
    if isinstance(error, EnvironmentCallError):  # which says all of it
        words = str(error)
    return EnvironmentConfigError(f"environment {config.entry_point or config.id} cannot be built: {words}")


def _factory(config: EnvironmentConfig, gymnasium: Any) -> tuple[Any, int | None]:
    """How to make one copy without its time limit, and that limit: `Environment` counts, to resume."""
    if config.entry_point is not None:
        attribute = _load(config.entry_point)
        probe = attribute(**config.kwargs)
        if not isinstance(probe, gymnasium.Env):
            raise EnvironmentConfigError(
                f"{config.entry_point} made a {type(probe).__name__}; it must make a gymnasium.Env"
            )
        limit = probe._max_episode_steps if isinstance(probe, gymnasium.wrappers.TimeLimit) else None
        probe.close()

        def make_own() -> Any:
            environment = attribute(**config.kwargs)
            return environment.env if limit is not None else environment

        return make_own, limit
    spec = gymnasium.spec(config.id)
    kwargs = dict(config.kwargs)
    limit = _time_limit(kwargs.pop("max_episode_steps", spec.max_episode_steps))

    def make_registered() -> Any:
        return gymnasium.make(config.id, max_episode_steps=-1, disable_env_checker=True, **kwargs)

    return make_registered, limit


def _time_limit(steps: Any) -> int | None:
    """What kwargs.max_episode_steps says; below 0 is no limit, as gymnasium has it."""
    if steps is None or (type(steps) is int and steps < 0):
        return None
    if type(steps) is not int or steps == 0:
        raise EnvironmentConfigError(
            f"max_episode_steps is {steps!r}; it must be a whole number of steps, or -1 for no limit"
        )
    return steps


def _load(entry_point: str) -> Any:
    module, separator, attribute = entry_point.partition(":")
    if not separator:
        raise EnvironmentConfigError(f"entryPoint is {entry_point!r}; write it as module:attribute")
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        where = traces.raised_at(error)  # nowhere in the user's code where its module itself is missing
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded ({error}{where}); {_remedy(module, error.name)}"
        ) from (error if where else None)
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is imported
        where = " in the actor's image" if _in_an_image() else ""
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded: importing {module} raised {type(error).__name__}: "
            f"{error}{traces.raised_at(error)}; `python -c 'import {module}'`{where} must pass"
        ) from error
    try:
        return attrgetter(attribute)(loaded)
    except AttributeError as error:
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded ({error}); correct what stands after the colon"
        ) from error


def _remedy(module: str, missing: str | None) -> str:
    """What to do where an entry point's module, or another one that it imports, is missing."""
    if _in_an_image():
        return "install its package in the actor's image"
    top = module.partition(".")[0]
    if missing is not None and missing.partition(".")[0] != top:
        return f"install what {module} needs for the Python that runs Nitro, {sys.executable}"
    return (
        f"run nitro in the folder that holds {top} (now it runs in {Path.cwd()}), or add that folder to "
        "PYTHONPATH"
    )


def _in_an_image() -> bool:
    return any(name in os.environ for name in _IN_AN_IMAGE)


def _observation_dtype(space: Any, gymnasium: Any) -> str:
    if isinstance(space, gymnasium.spaces.Box):
        if space.dtype == np.uint8:
            return "uint8"
        if np.issubdtype(space.dtype, np.floating):
            return "float32"
    raise EnvironmentConfigError(
        f"observation space {space} is not supported; it must be a Box of floats or uint8. "
        "Wrap the environment, for example in gymnasium.wrappers.FlattenObservation or DtypeObservation"
    )


def _actions(
    space: Any, gymnasium: Any
) -> tuple[int, NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Number of actions, and their bounds where they are continuous."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n), None, None
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (np.asarray(bound, np.float32).reshape(-1) for bound in (space.low, space.high))
        return math.prod(space.shape), low, high
    raise EnvironmentConfigError(
        f"action space {space} is not supported; it must be a Box of floats or Discrete. "
        "Wrap the environment, for example in gymnasium.wrappers.TransformAction"
    )
