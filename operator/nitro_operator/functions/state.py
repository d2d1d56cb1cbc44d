"""What is known of a job's function."""

from __future__ import annotations

from dataclasses import dataclass

from nitro_operator.diagnosis import Problem


@dataclass(frozen=True)
class FunctionState:
    """As the last look found it."""

    ready: bool = False
    """Whether it can be invoked."""
    problem: Problem | None = None
    """What is wrong with it, or with the way to it."""
    provisioned: int | None = None
    """Its provisioned concurrency; None where that is off."""


NOT_SEEN = FunctionState()
"""Before the first look, and while the function is being made."""

MAKING = Problem(
    "FunctionPending",
    "the Lambda function is being made; the learner starts when it is ready.",
    warning=False,
)
