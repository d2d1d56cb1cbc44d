"""Scalers for tests."""

from typing import Any

from learner_support import job
from nitro_learner import scalers
from nitro_learner.scalers import Scaler

SPEC = job("paper").spec
RANGE = {"min_actors": 8, "max_actors": 64, "initial_actors": 16, "decay": 0.96, "window": 6}


def make(seed: int = 0, *, stop: dict[str, Any] | None = None, **scaling: Any) -> Scaler:
    """A scaler with 8 to 64 actors, other settings of spec.scaling and spec.stop as given."""
    return scalers.make(
        SPEC.model_copy(
            update={
                "seed": seed,
                "scaling": SPEC.scaling.model_copy(update=RANGE | scaling),
                "stop": SPEC.stop.model_copy(update=stop or {}),
            }
        )
    )
