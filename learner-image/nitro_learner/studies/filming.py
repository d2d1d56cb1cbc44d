"""Videos of a checkpoint's policy: one episode with mean actions, picture by picture."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from nitro_actor.policy import ClassPolicies, Policies
from nitro_actor.protocol.agents import AGENT
from nitro_actor.rollout import best_actions
from nitro_actor.stacking import join
from nitro_api import JobSpec
from nitro_learner.checkpoints.store import Checkpoint
from nitro_learner.sampling.seeds import evaluation_seed
from nitro_learner.studies.playing import LATER_SLOT, config_of, policies_of
from nitro_learner.studies.video import (
    Draw,
    Filmed,
    Video,
    VideoError,
    as_policies_see,
    choose_renderer,
    lighten,
)

if TYPE_CHECKING:
    from nitro_actor.engines.masked import Masks

_TEAM_RATE = 10.0
"""Steps per second of a video of several agents: mpe2's."""

_Step = tuple[Draw, float, bool]
"""What draws the picture after a step, the step's reward, and whether the episode ended."""


def film(
    spec: JobSpec, checkpoint: Checkpoint, path: Path, progress: Callable[[int], None] = lambda _: None
) -> Filmed:
    """Write a video (.mp4, .gif or .webp) of one episode with mean actions, at most MOST_STEPS of its steps.

    `progress` is told the number of steps after each.
    Raises:
        VideoError: the environment has no picture, or no renderer works here, or nothing writes the format.
    """
    seed = evaluation_seed(spec.seed, checkpoint.round, LATER_SLOT)
    environment = make_env(config_of(spec, 1))
    with contextlib.ExitStack() as stack:
        stack.callback(environment.close)
        playing = policies_of(spec, checkpoint, environment)
        if environment.spec.several:
            team = environment
            if team.picture(0) is None:
                team = _drawn_team(spec)
                stack.callback(team.close)
            episode, rate = _drawn_by_engine(team, playing, seed), _TEAM_RATE
        elif spec.environment.atari:
            episode, rate = (
                _drawn_by_engine(environment, playing, seed),
                60 / spec.environment.atari.frame_skip,
            )
        else:
            from nitro_actor.engines.masked import Masks  # gymnasium takes long to load

            choose_renderer()
            drawing = _renderable(spec)
            stack.callback(drawing.close)
            policy, (spaces,) = playing.classes[AGENT], environment.spec.classes
            masks = Masks([drawing], policy.actions) if spaces.action.get("masked") else None
            episode = _episode(drawing, policy, seed, spaces.observation["stack"], masks)
            rate = float(drawing.metadata.get("render_fps") or 30)
        video = stack.enter_context(Video(path, rate, progress))
        for draw, reward, ended in episode:
            if not video.step(draw, reward, ended=ended):
                break
    return video.filmed


def _renderable(spec: JobSpec) -> Any:
    """A gymnasium environment that draws frames, and shows observations as policies see them."""
    wanted = spec.environment
    kwargs = {**wanted.kwargs, "render_mode": "rgb_array"}
    try:
        with warnings.catch_warnings():
            # Renderers warn of each way that they tried; the error below says it once.
            warnings.simplefilter("ignore")
            environment = _make(wanted.id, wanted.entry_point, kwargs)
            lighten(environment)
            environment.reset(seed=0)
            picture = environment.render()
    # Every renderer raises an error of another kind where it has no display.
    except Exception as error:
        raise VideoError(
            f"{wanted.id} cannot be drawn here ({type(error).__name__}: {error}). "
            "Without a display MuJoCo's environments need EGL or OSMesa, with or without a GPU: on Debian or "
            "Ubuntu apt-get install libegl1 libgl1-mesa-dri. MUJOCO_GL=egl, osmesa or glfw chooses another."
        ) from error
    if picture is None:
        raise VideoError(f"{wanted.id} draws nothing, so there is no video of it.")
    return as_policies_see(environment)


def _make(id: str, entry_point: str | None, kwargs: dict[str, Any]) -> Any:
    import gymnasium

    if entry_point is None:
        return gymnasium.make(id, disable_env_checker=True, **kwargs)
    module, attribute = entry_point.split(":")
    return getattr(importlib.import_module(module), attribute)(**kwargs)


def _drawn_team(spec: JobSpec) -> Environment:
    """An environment of several agents that draws frames."""
    config = config_of(spec, 1)
    try:
        environment = make_env(replace(config, kwargs={**config.kwargs, "render_mode": "rgb_array"}))
        picture = environment.picture(0)
    # It is the user's code, which may raise anything.
    except Exception as error:
        raise VideoError(
            f"{spec.environment.id} cannot be drawn with the keyword argument render_mode: rgb_array "
            f"({type(error).__name__}: {error})"
        ) from error
    if picture is None:
        raise VideoError(f"{spec.environment.id} draws nothing, so there is no video of it.")
    return environment


def _drawn_by_engine(environment: Environment, policies: Policies, seed: int) -> Iterator[_Step]:
    """As `_episode`, where the engine draws the pictures; of several agents the rewards are sums."""
    environment.reset([seed])
    memories, ended = policies.memories(1), False
    while not ended:
        acted = {name: alive[0].copy() for name, alive in environment.alive.items()}
        step = environment.step(best_actions(environment, policies, memories), policies.boxes)
        memories.forget(step.terminated, acted, step.died)
        ended = bool(step.terminated[0] or step.truncated[0])
        yield (
            partial(environment.picture, 0),
            float(sum(rewards[0].sum() for rewards in step.rewards.values())),
            ended,
        )


def _episode(
    environment: Any, policy: ClassPolicies, seed: int, stack: int, masks: Masks | None
) -> Iterator[_Step]:
    """One episode; the policy sees `stack` observations, and `masks` where its actions are masked."""
    from nitro_actor.spaces import native_action

    observation, _ = environment.reset(seed=seed % 2**32)
    available = None
    if masks:
        masks.show(0)
        available = masks.available
    seen = deque([np.asarray(observation)] * stack, maxlen=stack)
    distribution = np.empty((1, policy.actions.parameters), np.float32)
    memory = policy.memory(1)
    ended = False
    while not ended:
        shown = seen[0] if stack == 1 else join(np.stack(seen), 0)
        policy.distribution(shown[None], available, distribution, memory)
        (action,) = policy.actions.bounded(policy.actions.mode(distribution))
        native = native_action(environment.action_space, action)
        observation, reward, terminated, truncated, _ = environment.step(native)
        seen.append(np.asarray(observation))
        if masks:
            masks.show(0, terminated=bool(terminated), truncated=bool(truncated))
        ended = bool(terminated or truncated)
        yield environment.render, float(reward), ended
