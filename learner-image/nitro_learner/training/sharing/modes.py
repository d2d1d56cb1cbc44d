"""The modes of spec.sharing: when a run toggles between separate and shared policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from nitro_learner.training.sharing.decrease import DecreaseDetector

_TOGGLES = 0x7066
"""A number that sets the random numbers of this module apart from others of the same seed."""


class Mode(Protocol):
    """A rule that says after each round whether the run toggles."""

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:
        """Why sharing begins or ends after round `round`, as the end of a sentence; None if neither.

        Args:
            returns: mean return of each agent's episodes that ended in the round; empty where none ended.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`."""
        ...


class Static:
    """`never` and `always`: groups stay as they are at the start."""

    def toggles(self, round: int, returns: Mapping[str, float]) -> str | None:  # noqa: ARG002
        """Return None: groups never change."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


class Dynamic:
    """`dynamic`: the run toggles whenever the agents' returns fall.

    Args:
        window: W, rounds.
        slope: tau.
    """

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
        """The detector's state."""
        return self._detector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Mode`."""
        self._detector.load_state_dict(state)


class RandomToggle(Static):
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
