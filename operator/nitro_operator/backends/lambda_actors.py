"""Actors as invocations of an AWS Lambda function. AWS scales them; the operator manages the function."""

from __future__ import annotations

from nitro_api.spec.lambda_backend import LambdaBackendSpec
from nitro_operator.backends.base import ActorDeployment
from nitro_operator.builders import JobView
from nitro_operator.functions import Want
from nitro_operator.functions.problems import PROTOCOL_MISMATCH
from nitro_operator.functions.state import MAKING, FunctionState
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed


class LambdaDeployment(ActorDeployment):
    """Actors outside the cluster. AWS has a limit of its own for each account.

    A silent learner keeps its sandboxes until their number may change again. If they were released earlier,
    they could not come back in time.
    """

    def __init__(self, function: LambdaBackendSpec, state: FunctionState) -> None:
        self._state = state
        provisioning = function.provisioned_concurrency
        self.patience = 60.0 * provisioning.minutes_between_changes if provisioning is not None else 0.0
        self.provisioned = state.provisioned

    def blocker(self) -> Problem | None:
        return None if self._state.ready else self._state.problem or MAKING

    def function(self, view: JobView, *, active: bool, actors: int) -> Want:
        return Want(view, active, actors)

    def problem(self, observed: Observed) -> Problem | None:
        return None if self._of_the_release_before(observed) else self._state.problem

    def serving(self, observed: Observed) -> bool:
        return self._state.ready or self._of_the_release_before(observed)

    def _of_the_release_before(self, observed: Observed) -> bool:
        """Whether the operator was upgraded during the run.

        The operator starts no learner while the function speaks another protocol. So a learner that is there
        was started by the release before, and it speaks the function's protocol.
        """
        problem = self._state.problem
        other = problem is not None and problem.reason == PROTOCOL_MISMATCH
        return other and observed.learner_job is not None
