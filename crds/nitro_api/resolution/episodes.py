"""Facts about environments that are known without building one, and the rollouts that follow from them.

The facts are whether an actor can save an environment's state, so that episodes go on from one rollout to the
next, and after how many steps an episode ends. A rollout has a length T and a number E of copies that share
it.

A job is resolved where gymnasium is not installed, so the facts are in a table. A test compares it with
gymnasium.
"""

from __future__ import annotations

import math

from nitro_api.spec.environment import Environment, GivenEnvironment

_LONGER = 4
"""How many times the preset's rolloutLength a default may be, so that an episode fits."""

_MUJOCO = {
    "Ant": 1000,
    "HalfCheetah": 1000,
    "Hopper": 1000,
    "Humanoid": 1000,
    "HumanoidStandup": 1000,
    "InvertedDoublePendulum": 1000,
    "InvertedPendulum": 1000,
    "Pusher": 100,
    "Reacher": 50,
    "Swimmer": 1000,
    "Walker2d": 1000,
}

RESUMABLE = {
    "Acrobot-v1": 500,
    "CartPole-v0": 200,
    "CartPole-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
} | {f"{name}-{version}": limit for name, limit in _MUJOCO.items() for version in ("v4", "v5")}
"""Time limits of the ids whose state an actor can save. It can save Atari games too, which are not listed."""

NOT_RESUMABLE = {
    "BipedalWalker-v3": 1600,
    "BipedalWalkerHardcore-v3": 2000,
    "CarRacing-v3": 1000,
    "LunarLander-v3": 1000,
    "LunarLanderContinuous-v3": 1000,
}
"""Time limits of the ids whose state nobody can save."""


_PARTICLES = ("adversary", "spread", "tag")
_OTHER_PARTICLES = ("crypto", "push", "reference", "speaker_listener", "world_comm")

AGENTS_RESUMABLE = {
    **{f"mpe2/simple_{name}_v3": 25 for name in _PARTICLES},
    **dict.fromkeys(("smax/3s5z", "smax/8m"), 100),
}
"""Time limits of the ids of several agents whose state an actor can save. The argument max_cycles of mpe2's
environments sets another limit."""

AGENTS_NOT_RESUMABLE = {f"mpe2/simple_{name}_v3": 25 for name in _OTHER_PARTICLES}
"""Time limits of the ids of several agents whose state nobody can save; max_cycles as above."""


def resumable(environment: GivenEnvironment) -> bool:
    """Whether an actor is known to save the environment's state.

    For a user's own environment this is unknown until an actor has built it, so the answer is False.
    """
    if environment.entry_point is not None:
        return False
    return environment.is_atari or environment.id in RESUMABLE or environment.id in AGENTS_RESUMABLE


def time_limit(environment: GivenEnvironment) -> int | None:
    """Steps after which an episode ends at the latest; None if that is not known."""
    if environment.entry_point is not None:
        return None
    registered = (RESUMABLE | NOT_RESUMABLE).get(environment.id or "")
    limit = environment.kwargs.get("max_episode_steps", registered)
    of_agents = AGENTS_RESUMABLE | AGENTS_NOT_RESUMABLE
    if environment.id in of_agents:
        limit = environment.kwargs.get("max_cycles", of_agents[environment.id])
    return limit if type(limit) is int and limit > 0 else None


def rollout(environment: GivenEnvironment, steps: int, envs: int) -> tuple[int, int]:
    """T and E of a job. A value that the job does not set is chosen so that E divides T.

    Args:
        environment: not resolved.
        steps, envs: the preset's T and E. Several copies must not cut episodes that cannot go on in the next
            rollout. For such environments, E may be smaller and T may be larger.
    """
    if environment.envs_per_actor is not None:
        shared = math.ceil(steps / environment.envs_per_actor) * environment.envs_per_actor
        return environment.rollout_length or shared, environment.envs_per_actor
    least: float = 1
    if envs > 1 and not resumable(environment):
        least = time_limit(environment) or math.inf
        if least <= _LONGER * steps:
            steps *= math.ceil(least / steps)
    steps = environment.rollout_length or steps
    fitting = [n for n in range(1, min(envs, steps) + 1) if steps % n == 0 and steps / n >= least]
    return steps, max(fitting, default=1)


def cut_warning(environment: Environment) -> str | None:
    """A warning if a resolved job's rollouts are known to cut episodes that fewer copies would not."""
    copies, steps = environment.envs_per_actor, environment.rollout_length // environment.envs_per_actor
    limit = time_limit(environment)
    unknown = limit is None and not environment.is_atari
    if environment.resume_episodes and (unknown or resumable(environment)):
        return None
    if copies == 1 or (limit is not None and limit <= steps):
        return None
    why = "its state cannot be saved" if environment.resume_episodes else "resumeEpisodes is false"
    return (
        f"spec.environment.envsPerActor: each of {copies} copies has {steps} steps in a rollout, and longer "
        f"episodes are cut there because {why}, so training returns are those of short episodes; "
        "set envsPerActor: 1 or raise rolloutLength"
    )
