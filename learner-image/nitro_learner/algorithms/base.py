"""What the trainer asks of a learning algorithm.

algorithm = algorithms.make(job.spec, environment_spec)
for k in range(1, rounds + 1):
    network, tensors = algorithm.weights()      # publish, sample with exactly these
    result = algorithm.update(fragments, k)     # fragments sorted by slot
    detector.measure(result.surrogate, k)       # before the next update
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nitro_learner.batch import Fragment
from nitro_learner.boosting.surrogate import Surrogate


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """One round's update.

    Attributes:
        stats: policy_loss, value_loss, entropy, kl, clip_fraction, explained_variance, advantage_std (before
            standardising), learning_rate, kl_coefficient.
        surrogate: the round's objective at the updated parameters.
    """

    stats: dict[str, float]
    surrogate: Surrogate


class Algorithm(Protocol):
    """Learns a policy from fragments. Equal fragments in equal order give equal weights, to the bit."""

    def update(self, fragments: list[Fragment], round: int) -> UpdateResult:
        """Learn from round `round` (from 1): its fragments, sorted by slot, sampled with `weights()`.

        Raises:
            ValueError: no fragment, slots out of order, or a fragment that does not fit the others.
        """
        ...

    def weights(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The weights container's metadata (`network`, `observationClip`) and its tensors, as copies."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that a continuation to the bit needs: nested dicts of tensors, arrays, numbers, strings and
        None."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()` of an equal algorithm.

        Raises:
            ValueError: the state is of another network or algorithm.
        """
        ...
