"""What the controller of functions knows of a job between two looks. A restart may lose all of it."""

from dataclasses import dataclass, field, replace

from nitro_operator.builders import JobView
from nitro_operator.functions.aws import Access
from nitro_operator.observation.diagnosis import Problem


@dataclass(frozen=True)
class FunctionState:
    """The state that the last look found."""

    ready: bool = False
    """Whether it can be invoked."""
    problem: Problem | None = None
    """The problem with the function, or with the access to it."""
    provisioned: int | None = None
    """Its provisioned concurrency; None if that is off."""


NOT_SEEN = FunctionState()
"""The state before the first look, and while the function is being created."""

MAKING = Problem(
    "FunctionPending",
    "the Lambda function is being created; the learner starts when it is ready.",
    warning=False,
)


@dataclass(frozen=True)
class Want:
    """What a job requires of its function."""

    view: JobView
    active: bool
    """Whether the job runs."""
    actors: int | None
    """Sandboxes to keep ready, where provisioned concurrency is on; None = as many as before."""

    def differs(self, other: "Want | None") -> bool:
        """Whether the function may need a change."""
        if other is None or self.active != other.active or self.view is not other.view:
            return True
        function = self.view.spec.backend.lambda_
        provisioned = function is not None and function.provisioned_concurrency is not None
        return provisioned and self.actors != other.actors


@dataclass
class FunctionMemory:
    """State of one job's function between two looks."""

    uid: str
    want: Want | None = None
    access: Access | None = None
    """The last access that was complete."""
    state: FunctionState = NOT_SEEN
    published: tuple[str, str] | None = None
    healthy: str | None = None
    failures: int = 0
    due: bool = False
    """Whether the next look may repeat a change that AWS could not make."""
    broken: Problem | None = None
    """Why AWS could not make the last change that it had accepted."""
    busy: int = 0
    """Tries in a row that failed for a reason which passes by itself."""
    told: set[str] = field(default_factory=set)
    leaving: bool = False
    """Whether the queue knows that the job is being deleted."""

    def waits(self, want: Want) -> bool:
        """Whether the last look failed and the next one, which has its time, is soon enough: the job only
        asks for another number of sandboxes."""
        before = self.want
        return (
            self.failures > 0 and before is not None and not want.differs(replace(before, actors=want.actors))
        )
