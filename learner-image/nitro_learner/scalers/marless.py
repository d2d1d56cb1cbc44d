"""MARLess' scaler: the boosting scores of all policies decide together (MARLess, SoCC 2025).

    W^j = the last n convexity ratios of policy j, C^j among them
    S^j = (max W^j - C^j) / (max W^j - min W^j)
    I^j = clip(S^j I_max, I_min, I_max)
    I   = floor(mean of I^j) if that mean is below beta (I_max - I_min), else floor(max of I^j)

Most policies must want many actors before the one that wants most gets them. One policy alone cannot set the
maximum if beta > 1 / P + I_min / (I_max - I_min), with P policies.

Where the paper has no rule: without C^j the score is 0 and W^j stays as it is; with fewer than two values in
W^j the score is 1; with equal values it is 0.5. A policy that sharing has just made, or given to other
agents, begins with an empty W^j.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler, Wish


class MarlessScaler(Scaler):
    """The policies' scores by the mean, or by the maximum where the mean is high."""

    needs: frozenset[Need] = frozenset({"curvature"})

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert self.scaling.threshold is not None, "the job is not resolved"
        self._threshold = self.scaling.threshold
        self._windows: dict[str, deque[float]] = {}

    def decide(self, outcome: RoundOutcome) -> Decision:
        self._windows = {
            name: deque(() if policy.fresh else self._windows.get(name, ()), maxlen=self.scaling.window)
            for name, policy in outcome.policies.items()
        }
        fewest, most = self.scaling.min_actors, self.scaling.max_actors
        wishes: dict[str, Wish] = {}
        for name, policy in outcome.policies.items():
            score = (
                1.0
                if policy.fresh
                else self._score(name, self.ratio(name, policy.convexity_ratio, outcome.round))
            )
            wishes[name] = Wish(score, min(max(score * most, fewest), most))
        wanted = [wish.actors for wish in wishes.values()]
        actors = together(wanted, fewest=fewest, most=most, threshold=self._threshold)
        return Decision(self.clip(actors), fmean(wish.score for wish in wishes.values()), wishes)

    def ratio(self, policy: str, measured: float | None, round: int) -> float | None:  # noqa: ARG002
        """C^j of round `round`; None when it was not measured."""
        return measured

    def _score(self, policy: str, ratio: float | None) -> float:
        window = self._windows[policy]
        if ratio is None:
            return 0.0
        window.append(ratio)
        if len(window) < 2:
            return 1.0
        low, high = min(window), max(window)
        if high - low <= 1e-9 * max(1.0, abs(high)):
            return 0.5
        return (high - ratio) / (high - low)

    def state_dict(self) -> dict[str, Any]:
        return {"windows": {name: list(window) for name, window in self._windows.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._windows = {
            name: deque(window, maxlen=self.scaling.window) for name, window in state["windows"].items()
        }


class MarlessRandomScaler(MarlessScaler):
    """`random-score` for several agents: MarlessScaler with another C^j, a value drawn uniformly from the
    policy's own values so far by (seed, k, j). All else is equal."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._histories: dict[str, list[float]] = {}

    def decide(self, outcome: RoundOutcome) -> Decision:
        self._histories = {
            name: [] if policy.fresh else self._histories.get(name, [])
            for name, policy in outcome.policies.items()
        }
        return super().decide(outcome)

    def ratio(self, policy: str, measured: float | None, round: int) -> float | None:
        if measured is None:
            return None
        history = self._histories[policy]
        history.append(measured)
        generator = np.random.default_rng([self.seed, round, zlib.crc32(policy.encode())])
        return float(generator.choice(history))

    def state_dict(self) -> dict[str, Any]:
        histories = {name: list(history) for name, history in self._histories.items()}
        return super().state_dict() | {"histories": histories}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._histories = {name: list(history) for name, history in state["histories"].items()}


def together(wanted: Sequence[float], *, fewest: int, most: int, threshold: float) -> float:
    """The actors that all policies get, from what each wants: I^j [P], not rounded."""
    mean = fmean(wanted)
    return max(wanted) if mean >= threshold * (most - fewest) else mean
