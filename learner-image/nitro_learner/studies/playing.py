"""Playing a checkpoint's policy in this process: evaluation episodes and videos."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib
import itertools
import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.environment import AgentsEnvironment
from nitro_actor.agents.policies import Policies
from nitro_actor.agents.rollout import best_actions
from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from nitro_actor.play import play_of
from nitro_actor.policy import Policy
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.stacking import join
from nitro_api import JobSpec
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.policy_set import PolicySet, saved_policies
from nitro_learner.checkpoints.store import Checkpoint
from nitro_learner.run.rundir import naming
from nitro_learner.sampling.evaluation import MAX_STEPS
from nitro_learner.sampling.plans import sums_of_classes
from nitro_learner.sampling.seeds import evaluation_seed
from nitro_learner.training.adoption import check_masks

if TYPE_CHECKING:
    from nitro_actor.engines.masked import Masks

# The slot of evaluations after training: their episodes must differ from those of evaluations in training.
_LATER_SLOT = 1_000_000
_FRAMES = 1_000
_TEAM_RATE = 10.0
"""Pictures per second of a video of several agents: mpe2's."""

_Step = tuple[NDArray[np.uint8], float, bool]
"""The picture after a step, its reward, and whether the episode ended."""

_DISPLAYS = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")
# The library of each renderer that needs no display.
_RENDERERS = (("EGL", "egl"), ("OSMesa", "osmesa"))


class VideoError(Exception):
    """No video could be made; the message says why and what to do."""


@dataclass(frozen=True)
class Played:
    """Episodes with mean actions.

    Attributes:
        returns: undiscounted and summed over the agents, f64 [episodes].
        lengths: i64 [episodes].
        agent_means: each agent's mean return.
        class_means: each agent class's mean return, summed over its agents.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    agent_means: Mapping[str, float]
    class_means: Mapping[str, float]


@dataclass(frozen=True)
class Filmed:
    """The steps that a video shows, their undiscounted return, and whether the episode ended with them."""

    steps: int
    total: float
    ended: bool


def find_own(spec: JobSpec) -> None:
    """Let Python find the environment's module in the current folder, as actor processes do.

    Actor processes are started by `python -m`, for which Python puts that folder on its path. It does not do
    so for an installed program.
    """
    environment = spec.environment
    if (environment.entry_point or ":" in environment.id) and not sys.flags.safe_path:
        sys.path.insert(0, str(Path.cwd()))


def play(spec: JobSpec, checkpoint: Checkpoint, episodes: int) -> Played:
    """Play episodes with the policy of a checkpoint; equal calls give equal episodes.

    Raises:
        EnvironmentConfigError: the environment cannot be made here.
    """
    environment = make_env(_config(spec, min(episodes, spec.environment.envs_per_actor)))
    try:
        described = environment.spec.to_json()
        policies = _policies(spec, checkpoint, described)
        game = play_of(environment)
        seed = evaluation_seed(spec.seed, checkpoint.round, _LATER_SLOT)
        policy = game.policy(WeightsContainer("", policies.version, policies.weights(), policies.agents))
        tensors = game.evaluate(policy, seed=seed, episodes=episodes, max_steps=MAX_STEPS)
    finally:
        environment.close()
    returns, classes = tensors["episode_returns"], agent_classes(described)
    agents = [agent for one in classes for agent in one.agents]
    means = dict(zip(agents, returns.mean(axis=0).tolist(), strict=True))
    return Played(returns.sum(axis=1), tensors["episode_lengths"], means, sums_of_classes(means, classes))


def film(spec: JobSpec, checkpoint: Checkpoint, path: Path) -> Filmed:
    """Write a video (.gif or .webp) of one episode with mean actions, at most _FRAMES of its steps.

    Raises:
        VideoError: the environment has no picture, or no renderer works here.
    """
    from PIL import Image

    seed = evaluation_seed(spec.seed, checkpoint.round, _LATER_SLOT)
    environment = make_env(_config(spec, 1))
    policies = _policies(spec, checkpoint, environment.spec.to_json())
    pictures, total, ended = [], 0.0, False
    with contextlib.ExitStack() as stack:
        stack.callback(environment.close)
        if not isinstance(environment, Environment):
            container = WeightsContainer("", policies.version, policies.weights(), policies.agents)
            team = environment
            if team.picture(0) is None:
                team = _drawn_team(spec)
                stack.callback(team.close)
            episode, rate = _match(team, Policies(container, team.spec, 1), seed), _TEAM_RATE
        elif spec.environment.atari:
            policy = Policy(PolicyWeights.of(*policies.only.weights()), environment.spec)
            episode, rate = _game(environment, policy, seed), 60 / spec.environment.atari.frame_skip
        else:
            from nitro_actor.engines.masked import Masks  # gymnasium takes long to load

            _choose_renderer()
            policy = Policy(PolicyWeights.of(*policies.only.weights()), environment.spec)
            drawing = _renderable(spec)
            stack.callback(drawing.close)
            masks = Masks([drawing], environment.spec.action) if environment.spec.masked else None
            episode = _episode(drawing, policy, seed, environment.spec.frame_stack, masks)
            rate = float(drawing.metadata.get("render_fps") or 30)
        for frame, reward, over in itertools.islice(episode, _FRAMES):
            pictures.append(Image.fromarray(frame))
            total, ended = total + reward, over
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.partial{path.suffix}")
    with naming(path):
        pictures[0].save(temporary, save_all=True, append_images=pictures[1:], duration=1000 / rate, loop=0)
    temporary.replace(path)
    return Filmed(len(pictures), total, ended)


def _config(spec: JobSpec, count: int) -> EnvironmentConfig:
    return EnvironmentConfig.from_json(json.dumps(spec.environment.to_actor() | {"envs": count}))


def _policies(spec: JobSpec, checkpoint: Checkpoint, environment: dict[str, Any]) -> PolicySet:
    policies = registry.make_policies(spec, environment)
    check_masks(checkpoint.state, environment, goes_on=False)
    policies.load_state_dict(saved_policies(checkpoint.state))
    return policies


def _choose_renderer() -> None:
    """Set MUJOCO_GL if there is no display: MuJoCo does not look for other renderers by itself."""
    if sys.platform != "linux" or any(os.environ.get(name) for name in _DISPLAYS):
        return
    installed = (name for library, name in _RENDERERS if ctypes.util.find_library(library))
    if renderer := next(installed, None):
        os.environ["MUJOCO_GL"] = renderer


def _renderable(spec: JobSpec) -> Any:
    """A gymnasium environment that draws frames, and shows observations as policies see them."""
    from gymnasium.wrappers import FlattenObservation

    from nitro_actor.engines.masked import apart
    from nitro_actor.spaces import is_flattened

    wanted = spec.environment
    kwargs = {**wanted.kwargs, "render_mode": "rgb_array"}
    try:
        with warnings.catch_warnings():
            # Renderers warn of each way that they tried; the error below says it once.
            warnings.simplefilter("ignore")
            environment = _make(wanted.id, wanted.entry_point, kwargs)
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
    environment = apart(environment)
    return FlattenObservation(environment) if is_flattened(environment.observation_space) else environment


def _make(id: str, entry_point: str | None, kwargs: dict[str, Any]) -> Any:
    import gymnasium

    if entry_point is None:
        return gymnasium.make(id, disable_env_checker=True, **kwargs)
    module, attribute = entry_point.split(":")
    return getattr(importlib.import_module(module), attribute)(**kwargs)


def _drawn_team(spec: JobSpec) -> AgentsEnvironment:
    """An environment of several agents that draws frames."""
    config = _config(spec, 1)
    try:
        environment = make_env(replace(config, kwargs={**config.kwargs, "render_mode": "rgb_array"}))
        assert isinstance(environment, AgentsEnvironment), "it has several agents, drawn or not"
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


def _match(environment: AgentsEnvironment, policies: Policies, seed: int) -> Iterator[_Step]:
    """As `_episode`, of several agents; the rewards are sums over them."""
    environment.reset([seed])
    memories, ended = policies.memories(), False
    while not ended:
        acted = {name: alive.copy() for name, alive in environment.alive.items()}
        step = environment.step(best_actions(environment, policies, memories))
        memories.forget(step.terminated, acted, step.died)
        picture = environment.picture(0)
        assert picture is not None, "it has drawn a picture before"
        ended = bool(step.terminated[0] or step.truncated[0])
        yield picture, float(sum(rewards[0].sum() for rewards in step.rewards.values())), ended


def _game(environment: Environment, policy: Policy, seed: int) -> Iterator[_Step]:
    """As `_episode`, for an Atari game: its engine shows the screens without gymnasium."""
    environment.reset([seed])
    distribution = np.empty((1, policy.actions.parameters), np.float32)
    memory = np.zeros((1, policy.memory_size), np.float32)
    ended = False
    while not ended:
        policy.distribution(environment.observations, distribution, memory)
        rewards, terminated, truncated = environment.step(policy.actions.mode(distribution))
        picture = environment.picture(0)
        assert picture is not None, "the engine of Atari games has pictures"
        ended = bool(terminated[0] or truncated[0])
        yield picture, float(rewards[0]), ended


def _episode(environment: Any, policy: Policy, seed: int, stack: int, masks: Masks | None) -> Iterator[_Step]:
    """One episode; the policy sees `stack` observations, and `masks` where its actions are masked."""
    from nitro_actor.spaces import native_action

    observation, _ = environment.reset(seed=seed % 2**32)
    available = None
    if masks:
        masks.show(0)
        available = masks.available
    seen = deque([np.asarray(observation)] * stack, maxlen=stack)
    distribution = np.empty((1, policy.actions.parameters), np.float32)
    memory = np.zeros((1, policy.memory_size), np.float32)
    ended = False
    while not ended:
        shown = seen[0] if stack == 1 else join(np.stack(seen), 0)
        policy.distribution(shown[None], distribution, memory, available)
        (action,) = policy.actions.bounded(policy.actions.mode(distribution))
        native = native_action(environment.action_space, action)
        observation, reward, terminated, truncated, _ = environment.step(native)
        seen.append(np.asarray(observation))
        if masks:
            masks.show(0, terminated=bool(terminated), truncated=bool(truncated))
        ended = bool(terminated or truncated)
        yield np.asarray(environment.render(), np.uint8), float(reward), ended
