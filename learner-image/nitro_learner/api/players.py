"""The policies of a checkpoint with the actor's code, for any number of observations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.actions import action_space
from nitro_actor.masks import choices, obstacle
from nitro_actor.policy import ClassPolicies, Policies
from nitro_actor.protocol.agents import AgentClass

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that observations of float32 may have."""
Action = NDArray[Any]
"""Continuous: f32 [A] within the bounds of the action space. Whole numbers: as the environment takes them,
i64 of a Discrete space, and of a MultiDiscrete or MultiBinary one an array of its shape and dtype."""
State = NDArray[np.float32]
"""What an agent remembers of its episode: f32 [H], or of a batch [B, H]. H is 0 without a recurrent layer."""


def batch_of(observation: ArrayLike, spaces: AgentClass, kind: str) -> tuple[NDArray[Any], bool]:
    """Observations or frames with a batch axis, and whether there was none."""
    dtype, shape = np.dtype(spaces.observation["dtype"]), tuple(spaces.observation[kind])
    rows = np.asarray(observation)
    if rows.ndim - len(shape) not in (0, 1) or rows.shape[rows.ndim - len(shape) :] != shape or not rows.size:
        hint = " For one frame at a time use episode()." if spaces.observation["stack"] > 1 else ""
        raise ValueError(
            f"{spaces.name}: {'a frame' if kind == 'frame' else 'an observation'} has the shape "
            f"{list(shape)}, a batch [{', '.join(map(str, ('B', *shape)))}]; this is {list(rows.shape)}."
            f"{hint}"
        )
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"{spaces.name}: observations are numbers, not {rows.dtype}")
    if dtype == np.float32 and rows.dtype != dtype and (np.abs(rows) > LARGEST).any():
        raise ValueError(f"{spaces.name}: observations must be at most {LARGEST:.3g}, what float32 holds")
    if dtype == np.uint8 and rows.dtype != dtype:
        raise ValueError(f"{spaces.name}: observations are uint8, not {rows.dtype}: give them as they are")
    single = rows.ndim == len(shape)
    return (rows[None] if single else rows).astype(dtype, copy=False), single


def masks_of(available: ArrayLike, spaces: AgentClass, agent: str, count: int) -> NDArray[np.bool_]:
    """The choices of its action that an agent has in each of `count` rows, bool [count, C].

    Args:
        available: bool [C] or [count, C].
    """
    space = action_space(spaces.action)
    shape = (count, choices(space))
    if not shape[1]:
        raise ValueError(f"available: the actions of {agent} are real numbers, so none can be left out")
    try:
        rows = np.asarray(available)
    except ValueError:  # rows of several lengths
        rows = np.empty(0)
    if rows.shape not in (shape, shape[1:]):
        raise ValueError(f"available: {agent} needs the shape {list(shape)}, not {list(rows.shape)}")
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"available: {agent} needs bools, not {rows.dtype}")
    rows = rows.astype(bool)
    if obstacle(rows, space):
        where = "" if spaces.action["kind"] == "discrete" else ", of each of its numbers"
        raise ValueError(f"available: {agent} needs an action that is allowed in each row{where}")
    return np.broadcast_to(rows, shape)


def alike(seen: Mapping[str, tuple[NDArray[Any], bool]]) -> tuple[int, bool]:
    """The number of rows of all agents, and whether each gave one observation without a batch axis."""
    batches = {(len(rows), single) for rows, single in seen.values()}
    if len(batches) != 1:
        shapes = {agent: list(rows.shape) for agent, (rows, _) in seen.items()}
        raise ValueError(f"the observations of all agents must be equally many, at least one; got {shapes}")
    return batches.pop()


def act(
    policies: Policies,
    observations: Mapping[str, NDArray[Any]],
    masks: Mapping[str, NDArray[np.bool_]],
    count: int,
    generator: np.random.Generator | None,
    states: Mapping[str, State],
) -> dict[str, Action]:
    """Choose actions; `states` f32 [B, H] of the agents that act are updated in place."""
    acting = [policy for policy in policies.classes.values() if set(policy.agents.agents) & set(observations)]
    generators: Sequence[np.random.Generator | None] = [generator]
    if generator is not None and acting[0].agents.mortal:
        # In one call, so that no other thread's draw comes between.
        seeds = generator.integers(2**63, size=len(acting)).tolist()
        generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
    elif generator is None:
        generators = [None] * len(acting)
    chosen: dict[str, Action] = {}
    for own, drawn_from in zip(acting, generators, strict=True):
        chosen |= _act(own, observations, masks, count, drawn_from, states)
    return {agent: chosen[agent] for agent in observations}


def _act(
    policies: ClassPolicies,
    observations: Mapping[str, NDArray[Any]],
    masks: Mapping[str, NDArray[np.bool_]],
    count: int,
    generator: np.random.Generator | None,
    states: Mapping[str, State],
) -> dict[str, Action]:
    """As `act`, for the agents of a class."""
    agents, observation = policies.agents.agents, policies.agents.observation
    space = policies.actions
    lanes = count * len(agents)
    # One row for each agent of the class, whether it acts or not, as [B, n_c, ...].
    seen = np.zeros((count, len(agents), *observation["shape"]), observation["dtype"])
    available = np.ones((count, len(agents), choices(space)), bool)
    memory = policies.memory(count)
    remembered = memory.reshape(count, len(agents), -1)
    acting = [(index, agent) for index, agent in enumerate(agents) if agent in observations]
    for index, agent in acting:
        seen[:, index] = observations[agent]
        remembered[:, index] = states[agent]
        if agent in masks:
            available[:, index] = masks[agent]
    allowed = available.reshape(lanes, -1) if choices(space) else None
    distribution = np.empty((lanes, space.parameters), np.float32)
    policies.distribution(seen.reshape(lanes, *observation["shape"]), allowed, distribution, memory)
    if not np.isfinite(distribution).all():
        raise ValueError("the policy's output is NaN or infinite: an observation is, or the weights diverged")
    if generator is None:
        actions = space.mode(distribution)
    else:
        actions = np.empty((lanes, *space.shape), space.dtype)
        policies.sample(distribution, policies.noise(generator, 1, count), 0, allowed, actions)
    for index, agent in acting:
        states[agent][:] = remembered[:, index]
    by_agent = actions.reshape(count, len(agents), *space.shape)
    return {agent: space.native(by_agent[:, index]) for index, agent in acting}
