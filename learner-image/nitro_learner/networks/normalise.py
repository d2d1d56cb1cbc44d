"""Running statistics of observations and of discounted returns.

Both are float64 and merged fragment by fragment in slot order, so a round's statistics do not depend on which
fragment arrived first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nitro_learner.data.batch import RewardLanes
from nitro_learner.data.shapes import check

EPSILON = 1e-8
OBSERVATION_CLIP = 10.0
REWARD_CLIP = 10.0


class Moments:
    """Mean and population variance of all rows seen (Chan et al. 1983, parallel merge)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0.0
        self.mean = np.zeros(shape)
        self.variance = np.ones(shape)

    def merge(self, rows: np.ndarray) -> None:
        """Take in rows [n, *shape]."""
        n = len(rows)
        if n == 0:
            return
        rows = rows.astype(np.float64)
        mean, variance = rows.mean(0), rows.var(0)
        total = self.count + n
        delta = mean - self.mean
        squares = self.variance * self.count + variance * n + delta**2 * (self.count * n / total)
        # NumPy makes numbers of arrays without axes.
        self.mean = np.asarray(self.mean + delta * (n / total))
        self.variance = np.asarray(squares / total)
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean.copy(), "variance": self.variance.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if np.shape(state["mean"]) != self.mean.shape:
            raise ValueError(f"statistics of shape {np.shape(state['mean'])}, expected {self.mean.shape}")
        self.count = float(state["count"])
        self.mean = np.array(state["mean"], np.float64)
        self.variance = np.array(state["variance"], np.float64)


class ObservationNormaliser:
    """Standardise observations by statistics that stay the same for a whole round.

    tensors = normaliser.tensors()              # to the actors, with the weights of round k
    x = normaliser(observations)                # of round k, exactly as the actors saw them
    normaliser.merge(observations)              # from here on: round k + 1
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._moments = Moments(shape)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """[n, *obs], raw, to float32 [n, *obs], standardised and clipped to +-10; the actors' formula to the
        bit."""
        mean = self._moments.mean.astype(np.float32)
        scale = np.sqrt(self._moments.variance + EPSILON).astype(np.float32)
        result: np.ndarray = np.clip((observations - mean) / scale, -OBSERVATION_CLIP, OBSERVATION_CLIP)
        return result

    def merge(self, observations: np.ndarray) -> None:
        """Take in raw observations [..., *obs]."""
        self._moments.merge(observations.reshape(-1, *self._moments.mean.shape))

    def tensors(self) -> dict[str, np.ndarray]:
        """The wire's `observation.mean` and `observation.var`, float64 [*obs]."""
        return {
            "observation.mean": self._moments.mean.copy(),
            "observation.var": self._moments.variance.copy(),
        }

    def state_dict(self) -> dict[str, Any]:
        return self._moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._moments.load_state_dict(state)


class RewardNormaliser:
    """Divide rewards by the standard deviation of the discounted return so far, G_t = gamma G_{t-1} + r_t.

    G of each slot's environments is carried to the slot's next fragment where that resumes the episodes.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._moments = Moments(())
        self._running: dict[int, np.ndarray] = {}

    def __call__(self, fragments: Sequence[RewardLanes]) -> list[np.ndarray]:
        """Take in a round's rewards and return them scaled and clipped to +-10, float32 [L, lanes] per
        fragment. Only the returns of those who acted are taken in.

        Raises:
            ValueError: arrays of a fragment differ in shape, or a slot goes on with other environments.
        """
        for fragment in fragments:
            self._moments.merge(self._returns(fragment)[fragment.alive])
        scale = self.scale
        return [np.clip(f.rewards * scale, -REWARD_CLIP, REWARD_CLIP).astype(np.float32) for f in fragments]

    @property
    def scale(self) -> np.float64:
        """The present factor by which rewards are multiplied."""
        return np.float64(1 / np.sqrt(self._moments.variance + EPSILON))

    def _returns(self, fragment: RewardLanes) -> np.ndarray:
        rewards = fragment.rewards.astype(np.float64)
        check(rewards.shape, "rewards", {"ended": fragment.ended, "alive": fragment.alive})
        running = self._running.get(fragment.slot) if fragment.resumed else None
        if running is None:
            running = np.zeros(rewards.shape[1])
        check(
            rewards.shape[1:], "a step of rewards", {f"the return carried by slot {fragment.slot}": running}
        )
        returns = np.empty_like(rewards)
        for t, reward in enumerate(rewards):
            returns[t] = running = running * self._gamma + reward
            running = np.where(fragment.ended[t], 0.0, running)
        self._running[fragment.slot] = running
        return returns

    def forget_episodes(self) -> None:
        """Forget the returns of running episodes, for instance when other agents go on with them."""
        self._running.clear()

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Let slots go on with copies of other slots' episodes; see `Learner`."""
        self._running = with_copies(self._running, sources)

    def state_dict(self) -> dict[str, Any]:
        running = {str(slot): values.copy() for slot, values in sorted(self._running.items())}
        return {"moments": self._moments.state_dict(), "running": running}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adopt(state)
        self._running = {int(slot): np.array(values, np.float64) for slot, values in state["running"].items()}

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin a new run with the statistics of another one, of which this is the state."""
        self._moments.load_state_dict(state["moments"])


def with_copies(carried: Mapping[int, np.ndarray], sources: Mapping[int, int]) -> dict[int, np.ndarray]:
    """What is carried of slots' episodes where slots go on with copies of others'; see `Learner`."""
    kept = {slot: value for slot, value in carried.items() if slot not in sources}
    return kept | {slot: carried[source].copy() for slot, source in sources.items() if source in carried}
