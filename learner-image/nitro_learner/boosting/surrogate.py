"""The interface between algorithms and the detector: a round's objective as a function that can be
differentiated twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

Objective = Literal["clip", "ratio1", "total"]
"""`clip`: the policy's clipped surrogate, maximised. `ratio1`: E[r A] with r taken at 1, maximised.
`total`: the whole loss with its value, KL and entropy terms, minimised, as the authors' code has it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function of parameters on fixed data.

    Attributes:
        terms: compute scalars whose sum is the function's value, with a graph, at the parameters' present
            values. Several terms keep each one's intermediate results in the cache.
        parameters: what to differentiate by; leaves of that graph. Differentiating never writes to them.
    """

    terms: Sequence[Callable[[], Tensor]]
    parameters: Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class Trajectories:
    """A round's objective by trajectory.

    Attributes:
        mean: the objective, one term for each environment of each fragment.
        sizes: number of summands in each term. Steps of agents that were not alive are no summands.
        transitions: of all environments, also those in which no agent acted.
    """

    mean: Function
    sizes: Sequence[float]
    transitions: int


class Surrogate(Protocol):
    """Round k's data. Valid until the algorithm's next update."""

    @property
    def size(self) -> int:
        """Number of transitions, including those in which no agent acted."""
        ...

    @property
    def drawable(self) -> Tensor:
        """The transitions in which an agent acted: sorted indices below `size`, int64 [n] on the CPU."""
        ...

    def function(self, objective: Objective, rows: Tensor) -> Function:
        """The objective's mean over the transitions `rows` (int64 [M], indices below `size`), at
        theta_{k+1}. With an algorithm of one agent, who moves the policy's parameters moves the policy that
        it plays."""
        ...

    def trajectories(self, objective: Objective) -> Trajectories:
        """The objective's mean over all transitions, by trajectory.

        At theta_k, which sampled them, where the algorithm is on-policy; else at the present parameters.
        """
        ...
