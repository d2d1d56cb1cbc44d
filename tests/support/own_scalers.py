"""Scalers of a user's own for tests, sound ones and wrong ones."""

import math
from typing import Any

from nitro_learner.scalers import Decision, RoundOutcome, Scaler


class Plateau(Scaler):
    """One actor more after each `patience` rounds whose return is no better than the best before."""

    def __init__(self, spec: Any, patience: int = 1, weight: float = 0.5) -> None:
        super().__init__(spec)
        self.patience, self.weight = patience, weight
        self.best, self.waited, self.mean = -math.inf, 0, 0.0

    def decide(self, outcome: RoundOutcome) -> Decision:
        reward = outcome.reward_mean or 0.0
        self.mean += self.weight * (reward - self.mean)
        self.waited = 0 if self.mean > self.best + 1.0 else self.waited + 1
        self.best = max(self.best, self.mean)
        return Decision(self.clip(outcome.actors + self.waited // self.patience))

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited, "mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited, self.mean = state["best"], state["waited"], state["mean"]


class Refusing(Scaler):
    """A scaler that refuses its settings."""

    def __init__(self, spec: Any, patience: int = 1) -> None:
        super().__init__(spec)
        raise ValueError(f"patience is {patience}")

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(outcome.actors)


class Undecided(Scaler):
    """A scaler that lacks `decide`."""


class Forgetful(Scaler):
    """A scaler whose base has no values."""

    def __init__(self, spec: Any) -> None:
        """Forget the base."""

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(outcome.actors)


class Odd(Scaler):
    """A scaler that returns what it was told; a number raises after that many rounds."""

    def __init__(self, spec: Any, decision: Any = None, *, raises: int = 0) -> None:
        super().__init__(spec)
        self.decision, self.raises = decision, raises

    def decide(self, outcome: RoundOutcome) -> Any:
        if self.raises and outcome.round >= self.raises:
            raise RuntimeError("no number comes to mind")
        return Decision(self.decision) if self.decision is not None else outcome.actors

    def state_dict(self) -> Any:
        return {"spec": object()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise KeyError(sorted(state)[0])


class Needy(Scaler):
    """A scaler that needs what nobody measures."""

    needs = frozenset({"curvature", "entropy"})  # type: ignore[arg-type]

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(outcome.actors)


class Large(Scaler):
    """A scaler whose first number is too large."""

    @property
    def initial(self) -> int:
        return 1_000

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(outcome.actors)


NUMBER = 3
