"""Actors as invocations of an AWS Lambda function: AWS scales them, the operator keeps the function."""

from __future__ import annotations

from nitro_api.lambda_backend import LambdaBackend
from nitro_operator.backends.base import ScalePatch
from nitro_operator.builders import JobView
from nitro_operator.diagnosis import Problem
from nitro_operator.functions.state import MAKING, FunctionState
from nitro_operator.kinds import Object
from nitro_operator.observed import Observed, learner_running


class LambdaActors:
    """See ActorBackend. The platform's limit is about this cluster's pods: AWS has its own, per account.

    Sandboxes that were let go would not come back within the time in which they may change once, so the
    learner has that time to come back.
    """

    limited = False

    def __init__(self, function: LambdaBackend, state: FunctionState) -> None:
        self._state = state
        provisioning = function.provisioned_concurrency
        self.patience = 60.0 * provisioning.minutes_between_changes if provisioning is not None else 0.0
        self.provisioned = state.provisioned

    def blocker(self) -> Problem | None:
        return None if self._state.ready else self._state.problem or MAKING

    def children(self, view: JobView) -> list[Object]:  # noqa: ARG002
        return []

    def scaling(self, observed: Observed, actors: int) -> ScalePatch | None:  # noqa: ARG002
        return None

    def outdated(self, view: JobView, observed: Observed) -> Object | None:  # noqa: ARG002
        return None

    def ready(self, observed: Observed, granted: int) -> int:
        return granted if self.serving(observed) and learner_running(observed) else 0

    def problem(self, observed: Observed) -> Problem | None:  # noqa: ARG002
        return self._state.problem

    def serving(self, observed: Observed) -> bool:  # noqa: ARG002
        return self._state.ready
