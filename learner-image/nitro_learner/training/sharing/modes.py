"""The modes of spec.sharing: when a run toggles between separate and shared policies."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def least_squares_slope(values: NDArray[np.float64]) -> float:
    """The slope per step of the line through values [n >= 2] that has the least squared error."""
    steps = np.arange(len(values)) - (len(values) - 1) / 2
    return float(steps @ (values - values.mean()) / (steps @ steps))


class DecreaseDetector:
    """Are the agents' returns falling? (MARLess, SoCC 2025.)

        rhat_i = (r_i - min r_i) / (max r_i - min r_i)      over the run so far; 0.5 where all r_i are equal
        R      = mean of rhat_i over the agents
        the slope of R over the last W rounds is below tau: they fall

    The window is normalised anew in each round, by what the run has seen until then. The slope is that of
    least squares; its unit is a share of the observed range per round, so that it lies within -0.152 to 0.152
    for W = 10.

        detector.push({"agent_0": -61.5, "agent_1": -64.0})     # after each round
        if detector.falling: detector.clear()

    Args:
        window: W, rounds.
        slope: tau.
    """

    def __init__(self, window: int, slope: float) -> None:
        self._threshold = slope
        self._recent: deque[dict[str, float]] = deque(maxlen=window)
        self._lowest: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def push(self, returns: Mapping[str, float]) -> None:
        """Take in a round: the mean return of each agent's episodes that ended in it. The agents are the same
        in every round."""
        self._recent.append(dict(returns))
        for agent, value in returns.items():
            self._lowest[agent] = min(value, self._lowest.get(agent, value))
            self._highest[agent] = max(value, self._highest.get(agent, value))

    @property
    def window(self) -> NDArray[np.float64]:
        """R of the rounds in the window, f64 [at most W]."""
        return np.array(
            [np.mean([self._share(*item) for item in returns.items()]) for returns in self._recent]
        )

    def _share(self, agent: str, value: float) -> float:
        low, high = self._lowest[agent], self._highest[agent]
        return (value - low) / (high - low) if high > low else 0.5

    @property
    def slope(self) -> float | None:
        """The slope of R over the window; None while the window is not full."""
        if len(self._recent) < (self._recent.maxlen or 0):
            return None
        return least_squares_slope(self.window)

    @property
    def falling(self) -> bool:
        """Whether the slope is below the threshold."""
        slope = self.slope
        return slope is not None and slope < self._threshold

    def clear(self) -> None:
        """Empty the window. The range of the returns stays, because it is that of the whole run."""
        self._recent.clear()

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here."""
        return {"recent": list(self._recent), "lowest": dict(self._lowest), "highest": dict(self._highest)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()` of a detector with an equal window."""
        self._recent = deque(map(dict, state["recent"]), maxlen=self._recent.maxlen)
        self._lowest, self._highest = dict(state["lowest"]), dict(state["highest"])


_TOGGLES = 0x7066
"""A number that sets the random numbers of this module apart from others of the same seed."""


class Mode:
    """A rule that says after each round whether the run toggles. `never` and `always` are this one: groups
    stay as they are at the start."""

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:  # noqa: ARG002
        """Why sharing begins or ends after round `round`, as the end of a sentence; None if neither.

        Args:
            returns: mean return of each agent's episodes that ended in the round; empty where none ended.
        """
        return None

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`."""


class Dynamic(Mode):
    """`dynamic`: the run toggles whenever the agents' returns fall."""

    def __init__(self, window: int, slope: float) -> None:
        self._detector = DecreaseDetector(window, slope)
        self._threshold = slope

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:  # noqa: ARG002
        """See `Mode`. After a toggle the window begins anew."""
        if not returns:
            return None
        self._detector.push(returns)
        if not self._detector.falling:
            return None
        slope = self._detector.slope
        self._detector.clear()
        return f"the slope of the returns, {slope:.4f}, is below {self._threshold:g}"

    def state_dict(self) -> dict[str, Any]:
        return self._detector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._detector.load_state_dict(state)


class RandomToggle(Mode):
    """`random-toggle`, the control of `dynamic`: the run toggles after rounds that the seed draws.

    Attributes:
        rounds: the rounds after which it toggles. As with `dynamic`, there are at least `window` rounds
            before each toggle.

    Raises:
        ValueError: the run is too short for so many toggles.
    """

    def __init__(self, toggles: int, window: int, rounds: int, seed: int) -> None:
        # None after the last round: no round would follow that samples and learns with the new groups.
        free = rounds - 1 - toggles * window
        if free < 0:
            raise ValueError(
                f"spec.sharing.toggles: {toggles} toggles, each {window} rounds after the one before, need "
                f"{toggles * window + 1} rounds, spec.stop.rounds is {rounds}; ask for fewer or train longer"
            )
        # Any choice of gaps is equally probable: stars and bars.
        generator = np.random.default_rng([_TOGGLES, seed])
        places = np.sort(generator.choice(free + toggles, toggles, replace=False)) - np.arange(toggles)
        self.rounds = tuple((places + window * (1 + np.arange(toggles))).tolist())

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:  # noqa: ARG002
        """See `Mode`."""
        return "the round was drawn" if round in self.rounds else None
