"""The interface of learning algorithms.

On-policy, one update per round, from fragments that were all sampled with the same weights:

    for k in range(1, rounds + 1):
        learner.begin_round(k, rounds)
        weights = learner.weights()                     # publish, sample with exactly these
        results = learner.update(fragments, k)          # fragments sorted by slot
        detector.measure(results[policy].surrogate, k)  # before the next update

Off-policy, from fragments as they arrive, whichever of the last few weights they were sampled with:

    for k in range(1, rounds + 1):
        learner.begin_round(k, rounds)
        weights = learner.weights()                     # publish; running requests keep theirs
        while fresh < wanted:
            if arrived: learner.take(arrived)           # in order of arrival
            elif not learner.replay(): ...              # nothing to do: wait for a fragment
        results = learner.end_round(k)
        detector.measure(results[policy].surrogate, k)  # before the next call of take or replay

An algorithm's record in nitro_api/algorithms says which of the two it implements. A learner has one policy or
several, such as those that a centralised critic or a mixer couples. `policy_set.py` makes a set of policies
from learners.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import Fragment

SINGLE_AGENT: Mapping[str, str] = {AGENT: DEFAULT_POLICY}
"""The `agents` of a learner whose environment has one agent."""


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


@runtime_checkable
class Learner(Protocol):
    """Learn policies from fragments. Equal calls in equal order give equal weights, to the bit: all random
    numbers are keyed by the job's seed and a counter that is part of the state.

    Besides these methods a learner has those of `OnPolicyLearner` or of `OffPolicyLearner`, as its record's
    feeding says.
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
        """Say which round (from 1) comes next, and how many the run has as its job stands now: a user may
        change them while it runs. A learning rate that falls over the rounds goes by both."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a continuation needs, except the fragments that an off-policy learner still
        holds: nested dicts of tensors, arrays, numbers, strings and None."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()` of an equal learner.

        Raises:
            ValueError: the state is of another network or algorithm.
        """
        ...

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin a new run with what an equal learner has learned in another one: its networks, optimisers
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
class OnPolicyLearner(Learner, Protocol):
    """A learner from whole rounds."""

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """Learn from round `round` (from 1): its fragments, sorted by slot, sampled with `weights()`. Returns
        what each policy learned. Policies with one joint objective share one surrogate.

        Raises:
            ValueError: no fragment, slots out of order, or a fragment that does not fit the others.
        """
        ...


@runtime_checkable
class OffPolicyLearner(Learner, Protocol):
    """A learner from fragments as they arrive. All methods are called from one thread."""

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

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        """End round `round` (from 1), in which `take` got at least one fragment. Returns what each policy
        learned. The next call of `weights` is the next version. The surrogate is of the fragments of this
        round."""
        ...
