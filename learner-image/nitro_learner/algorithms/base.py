"""The interface of learning algorithms.

On-policy, one update per round, from fragments that were all sampled with the same weights:

    algorithm = registry.make(job.spec, environment_spec)
    for k in range(1, rounds + 1):
        algorithm.begin_round(k, rounds)
        network, tensors = algorithm.weights()          # publish, sample with exactly these
        result = algorithm.update(fragments, k)         # fragments sorted by slot
        detector.measure(result.surrogate, k)           # before the next update

Off-policy, from fragments as they arrive, whichever of the last few weights they were sampled with:

    for k in range(1, rounds + 1):
        algorithm.begin_round(k, rounds)
        network, tensors = algorithm.weights()          # publish; running requests keep theirs
        while fresh < wanted:
            if arrived: algorithm.take(arrived)         # in order of arrival
            elif not algorithm.replay(): ...            # nothing to do: wait for a fragment
        result = algorithm.end_round(k)
        detector.measure(result.surrogate, k)           # before the next call of take or replay

An algorithm's record in nitro_api/algorithms says which of the two it implements.

An algorithm learns one policy. A `JointLearner` learns several policies that a centralised critic or a mixer
couples. `policy_set.py` makes a set of policies from either kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import Fragment


class StateMisfit(ValueError):  # noqa: N818
    """A saved state is of another network than the job's."""


def check_network(saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Raise StateMisfit where a saved state's network is not the job's; both by their descriptions."""
    if saved != own:
        raise StateMisfit(f"the state is of the network {saved}, this job's is {own}")


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The result of a round's update.

    Attributes:
        stats: policy_loss, value_loss, entropy, kl, clip_fraction, explained_variance, advantage_std (before
            standardising), learning_rate, kl_coefficient, gradient_norm (mean of the gradient steps, before
            clipping); without those that the algorithm does not have.
        surrogate: the round's objective at the updated parameters.
    """

    stats: dict[str, float]
    surrogate: Surrogate


class Algorithm(Protocol):
    """Learn a policy from fragments. Equal calls in equal order give equal weights, to the bit: all random
    numbers are keyed by the job's seed and a counter that is part of the state.
    """

    def weights(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The weights container's metadata (`network`, `observationClip`) and its tensors, as copies."""
        ...

    def begin_round(self, round: int, rounds: int) -> None:
        """Say which round (from 1) comes next, and how many the run has as its job stands now: a user may
        change them while it runs. A learning rate that falls over the rounds goes by both."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a continuation needs, except the fragments that an off-policy algorithm still
        holds: nested dicts of tensors, arrays, numbers, strings and None."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()` of an equal algorithm.

        Raises:
            ValueError: the state is of another network or algorithm.
        """
        ...

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin a new run with what an equal algorithm has learned in another one: its networks, optimisers
        and statistics. Counters, schedules, what adapts to the job's settings, replayed data and what is
        carried of running episodes begin anew.

        Args:
            state: its `state_dict()`; attachments may be missing.

        Raises:
            ValueError: as `load_state_dict`.
        """
        ...

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """Let slots go on with copies of other slots' episodes: copy what is carried from a slot's fragment
        to its next one.

        Args:
            sources: the slot whose episodes a slot goes on with.
        """
        ...


@runtime_checkable
class JointLearner(Protocol):
    """Learn one policy, or several that depend on each other. Besides these methods it has those of
    `OnPolicyJointLearner` or of `OffPolicyJointLearner`, as its record's feeding says.
    """

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that it learns."""
        ...

    @property
    def agents(self) -> Mapping[str, str]:
        """The policy of each agent that plays one of them, as a new run begins."""
        ...

    def weights(self) -> dict[str, PolicyWeights]:
        """Every policy's network and tensors, as copies."""
        ...

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Algorithm`."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm`."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Algorithm`."""
        ...

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Algorithm`."""
        ...

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Algorithm`."""
        ...


class OnPolicyJointLearner(JointLearner, Protocol):
    """`OnPolicyAlgorithm` for all of its policies at once."""

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyAlgorithm`, by policy. Policies with one joint objective share one surrogate."""
        ...


class OffPolicyJointLearner(JointLearner, Protocol):
    """`OffPolicyAlgorithm` for all of its policies at once."""

    @property
    def max_staleness(self) -> int:
        """See `OffPolicyAlgorithm`."""
        ...

    def take(self, fragments: list[Fragment]) -> None:
        """See `OffPolicyAlgorithm`."""
        ...

    def replay(self) -> bool:
        """See `OffPolicyAlgorithm`."""
        ...

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        """See `OffPolicyAlgorithm`, by policy."""
        ...


@runtime_checkable
class OnPolicyAlgorithm(Algorithm, Protocol):
    """An algorithm that learns from whole rounds."""

    def update(self, fragments: list[Fragment], round: int) -> UpdateResult:
        """Learn from round `round` (from 1): its fragments, sorted by slot, sampled with `weights()`.

        Raises:
            ValueError: no fragment, slots out of order, or a fragment that does not fit the others.
        """
        ...


@runtime_checkable
class OffPolicyAlgorithm(Algorithm, Protocol):
    """An algorithm that learns from fragments as they arrive. All methods are called from one thread."""

    @property
    def max_staleness(self) -> int:
        """L: how many versions behind the newest weights a fragment may be; an older one is never passed to
        `take`."""
        ...

    def take(self, fragments: list[Fragment]) -> None:
        """Learn from fragments that just arrived, in order of arrival. Each comes once; those of one slot
        come in the order of its rounds.

        Raises:
            ValueError: a fragment that does not fit the others.
        """
        ...

    def replay(self) -> bool:
        """Learn once more from earlier fragments, for a moment (tens of milliseconds). Returns False when no
        fragment may be used again before the next `take`."""
        ...

    def end_round(self, round: int) -> UpdateResult:
        """End round `round` (from 1), in which `take` got at least one fragment. The next call of `weights`
        is the next version. The surrogate is of the fragments of this round."""
        ...
