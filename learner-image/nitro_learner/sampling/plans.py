"""Plans of rounds and evaluations, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.backends.base import NO_EVIDENCE, Evidence
from nitro_learner.backends.tasks.counts import TaskStats
from nitro_learner.data.batch import Fragment

State = Mapping[str, NDArray[Any]]
"""An end state: tensors named ``state/...``, as the fragment carried them."""


class RoundFailed(Exception):  # noqa: N818
    """Too few slots of a round came back. Nothing was trained on: the run resumes from its checkpoint.

    ``resumable``: False where all of them failed at the work itself, and would fail again.
    ``evidence``: whether the user's environment is at fault for all of them, and a traceback.
    """

    def __init__(self, message: str, *, resumable: bool, evidence: Evidence = NO_EVIDENCE) -> None:
        super().__init__(message)
        self.resumable = resumable
        self.evidence = evidence


@dataclass(frozen=True)
class RoundPlan:
    """One round's sampling, fixed before it starts; how many slots it has is known only after the detector.

    ``steps`` is T, the transitions per fragment in all; ``min_actors`` is I_min; ``states`` holds the end
    state that each slot resumes (a slot without one resets its environment); ``sitting`` sets the round apart
    from what an earlier sitting of the run may have left behind.
    """

    run: str
    seed: int
    round: int
    weights_version: int
    steps: int
    min_actors: int
    states: Mapping[int, State] = field(default_factory=dict)
    sitting: str = ""


@dataclass(frozen=True)
class EvaluationPlan:
    """Evaluation of one weights version: ``episodes`` spread over ``slots`` requests, mean actions.

    Each version plays its own episodes. With ``episodes_of`` it plays those of another version. ``kwargs``
    are those of the environment that differ from training's.
    """

    run: str
    seed: int
    weights_version: int
    episodes: int
    max_steps: int
    slots: int
    episodes_of: int | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundResult:
    """The fragments that a round was trained on.

    Attributes:
        fragments: of an on-policy round sorted by slot; of an off-policy one in the order of arrival.
        lost: slots that were given up; of an on-policy round at most 20 %.
        stats: what it took.
        staleness: versions that the oldest fragment's weights were behind.
    """

    fragments: list[Fragment]
    lost: list[int]
    stats: TaskStats
    staleness: int = 0

    @property
    def work(self) -> list[TaskStats]:
        """What it took."""
        return [self.stats]


@dataclass(frozen=True)
class EvaluationResult:
    """Results of an evaluation's episodes, ordered by slot.

    Attributes:
        returns: summed over the agents, f64 [episodes].
        lengths: i64 [episodes].
        agent_returns: each agent's own, f64 [episodes].
        classes: of the environment.
        sets: results of all named sets, this one's, the first, among them; none where they have no names.
    """

    weights_version: int
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    stats: TaskStats
    agent_returns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    classes: Sequence[AgentClass] = ()
    sets: Mapping[str, "EvaluationResult"] = field(default_factory=dict)

    @property
    def work(self) -> list[TaskStats]:
        """What all sets took."""
        return [result.stats for result in self.sets.values()] or [self.stats]

    def set_means(self) -> dict[str, float]:
        """Each named set's mean return."""
        return {name: float(result.returns.mean()) for name, result in self.sets.items()}

    def agent_means(self) -> dict[str, float]:
        """Each agent's mean return."""
        return {agent: float(returns.mean()) for agent, returns in self.agent_returns.items()}

    def class_means(self) -> dict[str, float]:
        """Each class's mean return, summed over its agents."""
        return sums_of_classes(self.agent_means(), self.classes)


def sums_of_classes(by_agent: Mapping[str, float], classes: Sequence[AgentClass]) -> dict[str, float]:
    """The sum over its agents, for each class."""
    return {agent_class.name: sum(by_agent[agent] for agent in agent_class.agents) for agent_class in classes}
