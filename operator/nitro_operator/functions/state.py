"""The known state of a job's function."""

from __future__ import annotations

from dataclasses import dataclass

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
