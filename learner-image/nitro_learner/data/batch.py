"""Fragments as they come from actors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Fragment:
    """One slot's transitions of one round, time-major: L steps of E environments (T = L * E).

    One agent is a class of one agent, `agent`. `nitro_actor.protocol.fragment` names all fields.

    Attributes:
        meta: the message's metadata: run, round, slot, attempt, weightsVersion, seed, steps (T), envs (E),
            resumed.
        tensors: the arrays that an environment has once, which the maker of the fragment has validated:
            terminated, truncated bool [L, E]; episode_returns f64 [m, agents], episode_lengths i64 [m];
            "state/..." of the environment's end state; and where the algorithm's record wants a global state
            and the environment has one of its own, global_state f32 [L, E, S], last_global_state [E, S] and
            final_global_state [n, S].
        by_class: the arrays of each class of n_c agents by field; none of an evaluation. observations
            [L, E, n_c, *obs], raw, f32 or u8, stacked frames as whole observations; actions f32
            [L, E, n_c, A] or i64 [L, E, n_c]; log_probs f32 [L, E, n_c] and distribution f32 [L, E, n_c, P]
            (mean and log-std, or logits), each only where the algorithm's record wants it; rewards f32
            [L, E, n_c]; last_observations [E, n_c, *obs]; final_observations [n, n_c, *obs], a row for each
            truncated and not terminated step in order of (t, e); where actions are masked available bool
            [L, E, n_c, C], last_available [E, n_c, C], final_available [n, n_c, C].
            With several agents, alive [L, E, n_c] says who acted in a step. Only those steps are transitions
            of the agent. died [L, E, n_c] says who ended by itself in it: nothing follows for that agent, so
            its value is not bootstrapped. An agent that is alive later came back.
        info: for entries of the steps' info the sum of the numbers in it and their count, f64 [2].
    """

    meta: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray]
    by_class: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    info: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def slot(self) -> int:
        return int(self.meta["slot"])

    @property
    def resumed(self) -> bool:
        """Whether its environments went on from the slot's last end state, not from a reset."""
        return bool(self.meta["resumed"])

    @property
    def envs(self) -> int:
        """E, environments."""
        return int(self.tensors["terminated"].shape[1])

    @property
    def team_returns(self) -> np.ndarray:
        """Undiscounted returns f64 [m] of the episodes that ended in it, summed over the agents."""
        returns: np.ndarray = self.tensors["episode_returns"].sum(axis=1)
        return returns

    def returns_of(self, agents: Sequence[str]) -> dict[str, np.ndarray]:
        """Undiscounted returns f64 [m] of the episodes that ended in it, by agent.

        Args:
            agents: all of them, by class in the order of the classes' names, then as the class lists them.
        """
        return dict(zip(agents, self.tensors["episode_returns"].T, strict=True))


@dataclass(frozen=True, slots=True)
class RewardLanes:
    """The rewards of one fragment along time. A lane is one agent in one environment.

    Attributes:
        slot, resumed: of the fragment.
        rewards: f32 [L, lanes].
        ended: whether a lane's return ends with the step: the episode did, or the agent died; bool
            [L, lanes].
        alive: whether the agent acted in the step, bool [L, lanes].
    """

    slot: int
    resumed: bool
    rewards: np.ndarray
    ended: np.ndarray
    alive: np.ndarray


def vectors(observations: np.ndarray) -> np.ndarray:
    """Observations [n, *obs] as f32 [n, D]."""
    # numpy cannot infer the width of zero rows, which occur if no episode was truncated.
    width = math.prod(observations.shape[1:])
    return observations.astype(np.float32, copy=False).reshape(len(observations), width)


def on_device(array: np.ndarray, device: str) -> Tensor:
    """The array as a tensor on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def check_round(fragments: list[Fragment]) -> None:
    """Make sure that fragments are a round's.

    Raises:
        ValueError: there is none, slots do not ascend, or steps and environments differ between fragments.
    """
    slots = [fragment.slot for fragment in fragments]
    if any(later <= earlier for earlier, later in pairwise(slots)):
        raise ValueError(f"fragments must be one per slot and sorted by slot, got slots {slots}")
    check_shapes(fragments)


def check_shapes(fragments: Sequence[Fragment]) -> None:
    """Make sure that fragments can make one batch.

    Raises:
        ValueError: there is none, or steps and environments differ between fragments.
    """
    if not fragments:
        raise ValueError("without fragments there is nothing to learn from")
    shapes = {fragment.tensors["terminated"].shape for fragment in fragments}
    if len(shapes) > 1:
        raise ValueError(
            f"fragments of one batch must have the same steps and environments, got {sorted(shapes)}"
        )
