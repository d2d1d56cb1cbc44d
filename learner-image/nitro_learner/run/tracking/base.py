"""What every tracker does, and what it is told of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker describes it.

    Attributes:
        id: the run's identity, kept over resumes: it says which of the tracker's runs goes on.
        settings: of the tracker in the job, in camelCase, such as spec.tracking.mlflow.
        config: the resolved job without values that may be secret.
        tags: the environment, the algorithm, and the versions of the packages that compute.
    """

    id: str
    name: str
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    folder: Path
    learner: int


@dataclass(frozen=True)
class MeasuredRound:
    """The numbers of one round.

    Attributes:
        round: counted from 1.
        step: environment steps of the run up to and including the round.
        time: at which it was done. Unit: seconds since 1970.
        values: by name: `reward/mean`, and of several agents `policy/NAME/reward_mean`.
    """

    round: int
    step: int
    time: float
    values: Mapping[str, float]


class Tracker(Protocol):
    """A run in a tracker. A new object goes on with the same run of the tracker.

    Any exception of a method means that the tracker could not be written; another object tries again later.
    """

    def open(self) -> str:
        """Begin the tracker's run, or go on with it, and return where people find it."""
        ...

    def record(self, measured: MeasuredRound) -> None:
        """Record a round. Rounds come in order, from the first one on; what is recorded already stays."""
        ...

    def finish(self, status: str, figures: Mapping[str, float], files: Sequence[Path]) -> None:
        """End this sitting of the run.

        Args:
            status: FINISHED, KILLED (interrupted; it may go on later) or FAILED.
            figures: of the run's end, by name.
            files: the final policy and what belongs to it; empty if the run has not finished.
        """
        ...

    def abandon(self) -> None:
        """Let go of the tracker's run without an end, because the learner is gone."""
        ...
