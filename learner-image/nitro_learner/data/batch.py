"""Fragments as they come from actors, and the training batch that they make."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fragment import AGENT_AXIS
from nitro_learner.data import gae


@dataclass(frozen=True, slots=True)
class Fragment:
    """One slot's transitions of one round, time-major: L steps of E environments (T = L * E).

    Attributes:
        meta: the message's metadata: run, round, slot, attempt, weightsVersion, seed, steps (T), envs (E),
            resumed.
        tensors: arrays, which the maker of the fragment has validated. With one agent they are observations
            [L, E, *obs], raw, f32 or u8; actions f32 [L, E, A] or i64 [L, E]; log_probs f32 [L, E] and
            distribution f32 [L, E, P] (mean and log-std, or logits), each only where the algorithm's record
            wants it; rewards f32 [L, E]; terminated, truncated bool [L, E]; last_observations [E, *obs];
            final_observations [n, *obs], one for each truncated and not terminated step in order of (t, e);
            where actions are masked available bool [L, E, C], last_available [E, C], final_available [n, C];
            episode_returns f64 [m], episode_lengths i64 [m]; "state/..." of the environment's end state. With
            several agents, only the arrays that an environment has once are here: terminated, truncated,
            episode_returns f64 [m, agents], episode_lengths, the end state, and where the algorithm's record
            wants a global state and the environment has one of its own, global_state f32 [L, E, S],
            last_global_state [E, S] and final_global_state [n, S].
        classes: with several agents, the arrays of each agent class by field; see `by_class`.
        info: for entries of the steps' info the sum of the numbers in it and their count, f64 [2].
    """

    meta: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray]
    classes: Mapping[str, Mapping[str, np.ndarray]] | None = None
    info: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def slot(self) -> int:
        return int(self.meta["slot"])

    @property
    def resumed(self) -> bool:
        """Whether its environments went on from the slot's last end state, not from a reset."""
        return bool(self.meta["resumed"])

    @property
    def team_returns(self) -> np.ndarray:
        """Undiscounted returns f64 [m] of the episodes that ended in it, summed over the agents."""
        returns = self.tensors["episode_returns"]
        return returns if returns.ndim == 1 else returns.sum(axis=1)

    def returns_of(self, agents: Sequence[str]) -> dict[str, np.ndarray]:
        """Undiscounted returns f64 [m] of the episodes that ended in it, by agent.

        Args:
            agents: all of them, by class in the order of the classes' names, then as the class lists them.
        """
        returns = self.tensors["episode_returns"]
        return dict(zip(agents, returns[:, None].T if returns.ndim == 1 else returns.T, strict=True))

    @property
    def by_class(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """The per-agent arrays of each agent class, with the class's axis: observations [L, E, n_c, *obs],
        rewards [L, E, n_c], last_observations [E, n_c, *obs] and so on; one agent is a class of one.

        With several agents, alive [L, E, n_c] says who acted in a step. Only those steps are transitions of
        the agent. died [L, E, n_c] says who ended by itself in it: nothing follows for that agent, so its
        value is not bootstrapped. An agent that is alive later came back.

        `nitro_actor.protocol.fragment` names the fields. Stacked frames are whole observations here.
        """
        if self.classes is not None:
            return self.classes
        return {
            AGENT: {
                name: np.expand_dims(array, AGENT_AXIS[name])
                for name, array in self.tensors.items()
                if name in AGENT_AXIS
            }
        }


def vectors(observations: np.ndarray) -> np.ndarray:
    """Observations [n, *obs] as f32 [n, D]."""
    # numpy cannot infer the width of zero rows, which occur if no episode was truncated.
    width = math.prod(observations.shape[1:])
    return observations.astype(np.float32, copy=False).reshape(len(observations), width)


def on_device(array: np.ndarray, device: str) -> Tensor:
    """The array as a tensor on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


@dataclass(frozen=True, slots=True)
class Batch:
    """A round's N transitions, one row each: by slot, then step, then environment.

    Attributes:
        observations: f32 [N, D], or images [N, *obs]; normalised if they are to be.
        actions: f32 [N, A] or i64 [N].
        log_probs: f32 [N], under the policy that acted.
        distribution: f32 [N, P], of the policy that acted.
        advantages: f32 [N], not standardised.
        returns: f32 [N], advantages + values.
        values: f32 [N], of the critic before the update.
        available: bool [N, C], which choices of the actions were allowed; None where they are not masked.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    distribution: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor
    available: Tensor | None = None

    def __len__(self) -> int:
        return len(self.observations)


class Rollouts:
    """Fragments as one: rows [N, ...] for the networks, lanes [L, lanes] for computations along time.

    A row is a transition, ordered by fragment, then step, then environment; a lane is one environment of one
    fragment.

    Attributes:
        observations: f32 [N, D], or images [N, *obs]; normalised if they are to be.
        actions: f32 [N, A] or i64 [N].
        rewards: float [L, lanes].
        terminated: bool [L, lanes].
        truncated: bool [L, lanes].
    """

    def __init__(
        self,
        fragments: list[Fragment],
        rewards: list[np.ndarray],
        *,
        prepare: Callable[[np.ndarray], np.ndarray],
        device: str,
    ) -> None:
        """See `assemble` for the arguments; slots may come in any order and more than once.

        Raises:
            ValueError: no fragments, or steps and environments that differ between fragments.
        """
        _check_shapes(fragments)
        self._fragments = fragments
        self._prepare = prepare
        self._device = device
        self.observations, self._split = self._observations("observations", 2)
        self.actions = self._rows("actions")
        self.rewards = np.concatenate(rewards, axis=1)
        self.terminated = self._lanes("terminated")
        self.truncated = self._lanes("truncated")

    @property
    def log_probs(self) -> Tensor:
        """Log-probabilities f32 [N] under the policy that acted; not every algorithm asks for them."""
        return self._rows("log_probs")

    @property
    def distribution(self) -> Tensor:
        """Parameters f32 [N, P] of the policy that acted; not every algorithm asks for them."""
        return self._rows("distribution")

    @property
    def available(self) -> Tensor | None:
        """Which choices of the actions were allowed, bool [N, C]; None where they are not masked."""
        return self._rows("available") if "available" in self._fragments[0].tensors else None

    def values(self, critic: Callable[[Tensor], Tensor]) -> tuple[Tensor, np.ndarray]:
        """V of each row [N], and V of what followed each step [L, lanes] as `gae.next_values` gives it.

        Args:
            critic: observations to V [n].
        """
        rows = critic(self.observations)
        last_inputs, last_split = self._observations("last_observations", 1)
        final_inputs, final_split = self._observations("final_observations", 1)
        last, final = last_split(critic(last_inputs)), final_split(critic(final_inputs))
        terminated = [fragment.tensors["terminated"] for fragment in self._fragments]
        truncated = [fragment.tensors["truncated"] for fragment in self._fragments]
        following = list(map(gae.next_values, self._split(rows), last, final, terminated, truncated))
        return rows, np.concatenate(following, axis=1)

    def by_lane(self, rows: Tensor) -> np.ndarray:
        """Rows [N] as lanes [L, lanes]."""
        return np.concatenate(self._split(rows), axis=1)

    def by_row(self, lanes: np.ndarray) -> Tensor:
        """Lanes [L, lanes] as rows [N]."""
        rows = np.stack(np.split(lanes, len(self._fragments), axis=1)).reshape(-1)
        return on_device(rows, self._device)

    def _observations(self, name: str, axes: int) -> tuple[Tensor, Callable[[Tensor], list[np.ndarray]]]:
        """All fragments' rows of an array with `axes` leading axes, and a function to split results."""
        arrays = [fragment.tensors[name] for fragment in self._fragments]
        rows = np.concatenate([a.reshape(-1, *a.shape[axes:]) for a in arrays])
        ends = np.cumsum([int(np.prod(a.shape[:axes])) for a in arrays])[:-1]
        return on_device(self._prepare(rows), self._device), lambda results: [
            part.reshape(a.shape[:axes])
            for part, a in zip(np.split(results.cpu().numpy(), ends), arrays, strict=True)
        ]

    def _rows(self, name: str) -> Tensor:
        """[slots, L, E, ...] to [N, ...]."""
        stacked = np.stack([fragment.tensors[name] for fragment in self._fragments])
        return on_device(stacked.reshape(-1, *stacked.shape[3:]), self._device)

    def _lanes(self, name: str) -> np.ndarray:
        return np.concatenate([fragment.tensors[name] for fragment in self._fragments], axis=1)


def assemble(
    fragments: list[Fragment],
    rewards: list[np.ndarray],
    *,
    prepare: Callable[[np.ndarray], np.ndarray],
    values: Callable[[Tensor], Tensor],
    gamma: float,
    gae_lambda: float,
    device: str = "cpu",
) -> Batch:
    """Make the batch of a round.

    Args:
        fragments: sorted by slot.
        rewards: f32 [L, E] of each fragment, as the critic sees them.
        prepare: raw observations [n, *obs] to the networks' inputs, f32 [n, D] or images as they are.
        values: the networks' inputs to V [n].
        gamma: discount per step.
        gae_lambda: lambda of the advantage estimate.
        device: where the tensors shall live.

    Raises:
        ValueError: no fragments, slots that do not ascend, or steps and environments that differ between
        fragments.
    """
    check_round(fragments)
    rollouts = Rollouts(fragments, rewards, prepare=prepare, device=device)
    batch_values, following = rollouts.values(values)
    by_lane = gae.advantages(
        rollouts.rewards,
        rollouts.by_lane(batch_values),
        following,
        rollouts.terminated,
        rollouts.truncated,
        gamma=gamma,
        lam=gae_lambda,
    )
    advantages = rollouts.by_row(by_lane)
    return Batch(
        observations=rollouts.observations,
        actions=rollouts.actions,
        log_probs=rollouts.log_probs,
        distribution=rollouts.distribution,
        advantages=advantages,
        returns=advantages + batch_values,
        values=batch_values,
        available=rollouts.available,
    )


def check_round(fragments: list[Fragment]) -> None:
    """Make sure that fragments are a round's.

    Raises:
        ValueError: there is none, slots do not ascend, or steps and environments differ between fragments.
    """
    slots = [fragment.slot for fragment in fragments]
    if any(later <= earlier for earlier, later in pairwise(slots)):
        raise ValueError(f"fragments must be one per slot and sorted by slot, got slots {slots}")
    _check_shapes(fragments)


def _check_shapes(fragments: list[Fragment]) -> None:
    if not fragments:
        raise ValueError("without fragments there is nothing to learn from")
    shapes = {fragment.tensors["terminated"].shape for fragment in fragments}
    if len(shapes) > 1:
        raise ValueError(
            f"fragments of one batch must have the same steps and environments, got {sorted(shapes)}"
        )
