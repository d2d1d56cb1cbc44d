"""The steps that agents lived in a round, from which sharing judges how alike the agents act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_actor.actions import WholeNumbers, action_space
from nitro_actor.protocol.agents import AgentClass
from nitro_learner.data.batch import Fragment
from nitro_learner.sharing import similarity


def lived_rows(fragments: Sequence[Fragment], kind: AgentClass, agent: str) -> dict[str, np.ndarray]:
    """The observations, actions and, where they are masked, available actions of the steps that an agent was
    alive in, [steps, ...] each."""
    index = kind.agents.index(agent)
    names = ("observations", "actions", *(("available",) if kind.action.get("masked") else ()))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for fragment in fragments:
        own = fragment.by_class[kind.name]
        alive = own["alive"][:, :, index] if "alive" in own else np.ones(own["rewards"].shape[:2], bool)
        for name, rows in parts.items():
            rows.append(own[name][:, :, index][alive])
    return {name: np.concatenate(rows) for name, rows in parts.items()}


def draw(rows: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """At most `count` of the indices below `rows`, ascending."""
    return np.sort(generator.choice(rows, min(rows, count), replace=False))


def pairs(
    rows: Mapping[str, np.ndarray], kind: AgentClass, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Observations beside actions of drawn steps, f64 [m, features]; whole numbers one-hot."""
    drawn = draw(len(rows["observations"]), similarity.SAMPLES, generator)
    observations, actions = rows["observations"][drawn], rows["actions"][drawn]
    space = action_space(kind.action)
    if isinstance(space, WholeNumbers):
        columns = zip(space.counts.reshape(-1).tolist(), actions.reshape(len(drawn), -1).T, strict=True)
        actions = np.concatenate([np.eye(count)[column] for count, column in columns], axis=1)
    return np.concatenate(
        [observations.reshape(len(drawn), -1), actions.reshape(len(drawn), -1)], axis=1, dtype=np.float64
    )
