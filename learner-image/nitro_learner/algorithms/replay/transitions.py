"""From fragments to rows for the replay buffer.

A row is a step of an environment, with all of its agents. The observations that a step leads to are those of
another row, so each observation is kept once: `following` is the distance to that row. Where a rollout ends
or an episode was truncated, the step leads to a row that is an end: it has observations, but no action was
taken there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.algorithms.agents.team import Team, TeamMisfit
from nitro_learner.data.batch import Fragment, vectors

Array = NDArray[Any]


Columns = Sequence[tuple[str, ...]]
"""The agents of each value that a learner learns, in the team's order: one agent (IQL), or the whole team."""


def columns_of(team: Team, *, joint: bool) -> Columns:
    """The columns of a team."""
    return [team.agents] if joint else [(agent,) for agent in team.agents]


@dataclass(frozen=True, slots=True)
class Shape:
    """Of all fragments of a run.

    Attributes:
        length: L, steps of each environment.
        envs: E.
    """

    length: int
    envs: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of fragments, by fragment; of a fragment first its steps by (t, e), then the ends.

    Attributes:
        arrays: [n, ...] by name: CLASS/observations [n, n_c, D], CLASS/actions i64 [n, n_c], CLASS/alive bool
            (who acted; at an end who would), CLASS/goes_on bool (who acted and did not end by itself),
            CLASS/available bool [n, n_c, N] where actions are masked; global_state f32 [n, S] where the
            environment has one; rewards f32 [n, K]; ends bool [n, K], where nothing follows for the column's
            agents; following i64 [n].
        acted: bool [n, K], whether the column's agents acted in the row.
        drawable: bool [n, K], whether the row can be drawn for the column.
        lanes: the rows of each environment of each fragment in order of time, i64 [lanes, L]. They are E rows
            apart.
        shape: of the fragments.
    """

    arrays: dict[str, Array]
    acted: NDArray[np.bool_]
    drawable: NDArray[np.bool_]
    lanes: NDArray[np.int64]
    shape: Shape

    def __len__(self) -> int:
        return len(self.acted)

    def following(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the rows that follow the given ones."""
        result: NDArray[np.int64] = places + self.arrays["following"][places]
        return result

    def are_steps(self, columns: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the columns' agents acted in the rows."""
        result: NDArray[np.bool_] = self.acted[places, columns]
        return result


def rows_of(fragments: Sequence[Fragment], team: Team, columns: Columns, *, state: bool) -> Rows:
    """Make the rows of a round.

    Args:
        fragments: sorted by slot.
        state: whether the global state is wanted.

    Raises:
        ValueError: no fragment, or fragments of several shapes.
        TeamMisfit: the agents of one column have different rewards, and the team's is not their sum.
    """
    shapes = {fragment.tensors["terminated"].shape for fragment in fragments}
    if len(shapes) != 1:
        raise ValueError(f"replay needs fragments of one shape, got {sorted(shapes)}")
    (shape,) = (Shape(*sizes) for sizes in shapes)
    parts = [_of_fragment(fragment, team, columns, state) for fragment in fragments]
    begins = np.cumsum([0, *(len(part["terminated"]) for part in parts[:-1])])
    steps = np.arange(shape.length * shape.envs).reshape(shape.length, shape.envs).T
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrays["ends"] = _ends(arrays, arrays.pop("terminated"), team, columns)
    acted = arrays.pop("acted")
    lanes = (begins[:, None, None] + steps).reshape(-1, shape.length)
    return Rows(arrays, acted, acted, lanes, shape)


def _of_fragment(fragment: Fragment, team: Team, columns: Columns, state: bool) -> dict[str, Array]:
    terminated, truncated = (fragment.tensors[name] for name in ("terminated", "truncated"))
    cut = truncated & ~terminated
    running = np.flatnonzero(~(terminated | truncated)[-1])
    steps, ends = terminated.size, int(cut.sum()) + len(running)

    def joined(arrays: Any, name: str) -> Array:
        """A field of all steps, then of truncated episodes' ends, then of the rollout's."""
        taken = arrays[name]
        return np.concatenate(
            [taken.reshape(steps, *taken.shape[2:]), arrays[f"final_{name}"], arrays[f"last_{name}"][running]]
        )

    def padded(taken: Array, at_ends: Array | None = None) -> Array:
        """A field of all steps, and its values at the ends; zeros where they mean nothing."""
        flat = taken.reshape(steps, *taken.shape[2:])
        return np.concatenate(
            [flat, np.zeros((ends, *flat.shape[1:]), flat.dtype) if at_ends is None else at_ends]
        )

    result = {"terminated": padded(terminated), "following": _following(terminated, cut, running)}
    own_state = state and "global_state" in fragment.tensors
    if own_state:
        result["global_state"] = joined(fragment.tensors, "global_state")
    playing = {name for name, positions in positions_of(team).items() if positions}
    for name, fields in fragment.by_class.items():
        if name in playing or (state and not own_state):
            seen = joined(fields, "observations")
            flat = vectors(seen.reshape(-1, *seen.shape[2:])) if seen.dtype != np.uint8 else seen
            result[f"{name}/observations"] = flat.reshape(*seen.shape[:2], -1)
        if name not in playing:
            continue
        alive, died = _lives(fields)
        goes_on = alive & ~died & ~terminated[..., None]
        result[f"{name}/actions"] = padded(fields["actions"])
        result[f"{name}/alive"] = padded(alive, np.concatenate([goes_on[cut], goes_on[-1, running]]))
        result[f"{name}/goes_on"] = padded(goes_on)
        if "available" in fields:
            result[f"{name}/available"] = joined(fields, "available")
    rewards, acted = _rewards(fragment, team, columns)
    return result | {"rewards": padded(rewards), "acted": padded(acted)}


def _following(
    terminated: NDArray[np.bool_], cut: NDArray[np.bool_], running: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The distance from each row to the row that it leads to; 0 where nothing follows."""
    length, envs = terminated.shape
    steps, finals = terminated.size, int(cut.sum())
    place = np.arange(steps).reshape(length, envs)
    leads = place + envs
    leads[cut] = steps + np.arange(finals)
    leads[-1, running] = steps + finals + np.arange(len(running))
    leads[terminated] = place[terminated]
    return np.concatenate([(leads - place).ravel(), np.zeros(finals + len(running), np.int64)])


def _ends(arrays: dict[str, Array], terminated: Array, team: Team, columns: Columns) -> NDArray[np.bool_]:
    """Whether nothing follows a row for the agents of each column, [n, K]."""
    following = np.arange(len(terminated)) + arrays["following"]
    # A single agent goes on unless it ended by itself. A team goes on if one of its agents acts afterwards.
    goes_on = {
        agent: (
            arrays[f"{agent_class.name}/goes_on"][:, at],
            arrays[f"{agent_class.name}/alive"][following, at],
        )
        for agent_class in team.classes
        for at, agent in enumerate(agent_class.agents)
        if agent in team.agents
    }
    ends = [
        terminated | ~np.any([goes_on[agent][len(agents) > 1] for agent in agents], axis=0)
        for agents in columns
    ]
    return np.stack(ends, -1)


def _lives(fields: Mapping[str, Array]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the agents of a class acted in a step and whether they died in it, bool [L, E, n_c]. Fragments
    carry neither for agents that live as long as their episode."""
    if "alive" in fields:
        return fields["alive"], fields["died"]
    shape = fields["rewards"].shape
    return np.ones(shape, bool), np.zeros(shape, bool)


def positions_of(team: Team) -> dict[str, list[int]]:
    """Where the team's agents are on the class axis of each class."""
    return {
        agent_class.name: [at for at, agent in enumerate(agent_class.agents) if agent in team.agents]
        for agent_class in team.classes
    }


def _rewards(fragment: Fragment, team: Team, columns: Columns) -> tuple[Array, NDArray[np.bool_]]:
    """The columns' rewards f32 and whether their agents acted, both [L, E, K]."""
    by_agent = {
        agent: (
            fragment.by_class[agent_class.name]["rewards"][..., at],
            _lives(fragment.by_class[agent_class.name])[0][..., at],
        )
        for agent_class in team.classes
        for at, agent in enumerate(agent_class.agents)
        if agent in team.agents
    }
    total = np.sum([by_agent[agent][0] for agent in team.agents], axis=0)
    rewards, acted = [], []
    for agents in columns:
        alive = np.stack([by_agent[agent][1] for agent in agents])
        own = np.stack([by_agent[agent][0] for agent in agents])
        acted.append(alive.any(0))
        rewards.append(total if team.reward == "team" else _common(own, alive, team))
    return np.stack(rewards, -1).astype(np.float32), np.stack(acted, -1)


def _common(rewards: Array, alive: NDArray[np.bool_], team: Team) -> Array:
    """The one reward [L, E] of agents [n, L, E]."""
    most = np.where(alive, rewards, -np.inf).max(0)
    least = np.where(alive, rewards, np.inf).min(0)
    some = alive.any(0)
    # Sums in another order differ in their last bits.
    if not np.allclose(most[some], least[some], rtol=1e-5, atol=1e-6):
        step = np.where(some, most - least, 0).argmax()
        got = ", ".join(f"{value:g}" for value in rewards.reshape(len(rewards), -1)[:, step])
        raise TeamMisfit(
            f"spec.algorithm.name: {team.algorithm} needs one reward for all of its agents, but in one step "
            f"they got {got}. Set spec.algorithm.teamReward: true to learn from the sum, or take iql or ippo"
        )
    return np.where(some, most, 0.0)
