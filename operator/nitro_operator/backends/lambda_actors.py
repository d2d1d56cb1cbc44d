"""Actors as invocations of an AWS Lambda function. AWS scales them; the operator manages the function."""

import math

from nitro_api.pools.holding import COLD_START_SECONDS, PodTimes
from nitro_api.spec.lambda_backend import LambdaBackendSpec
from nitro_api.spec.pricing import Pricing
from nitro_operator.backends.base import ActorDeployment
from nitro_operator.builders import JobView
from nitro_operator.functions import Want
from nitro_operator.functions.problems import PROTOCOL_MISMATCH
from nitro_operator.functions.state import MAKING, NOT_SEEN, FunctionState
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed


class LambdaDeployment(ActorDeployment):
    """Actors outside the cluster. AWS has a limit of its own for each account.

    Provisioned concurrency follows the same rule as pods, with money in place of pod-seconds: a sandbox that
    is not kept ready costs a cold start, which is billed, and a kept one costs its price while idle.

    A silent learner keeps its sandboxes until their number may change again. If they were released earlier,
    they could not come back in time.
    """

    def __init__(self, function: LambdaBackendSpec, state: FunctionState, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        provisioning = function.provisioned_concurrency
        self.patience = 60.0 * provisioning.minutes_between_changes if provisioning is not None else 0.0
        self.provisioned = state.provisioned

    def held(self, observed: Observed) -> int:  # noqa: ARG002
        return self.provisioned or 0

    def times(self, measured: PodTimes) -> PodTimes | None:  # noqa: ARG002
        return None if self.provisioned is None else provisioned_times(self._pricing)

    def blocker(self) -> Problem | None:
        return None if self._state.ready else self._state.problem or MAKING

    def function(self, view: JobView, *, active: bool, actors: int) -> Want:
        # At an operator's start nobody knows yet how many sandboxes are held: it keeps them.
        return Want(view, active, None if self._state is NOT_SEEN else actors)

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


def provisioned_times(pricing: Pricing) -> PodTimes:
    """The times with which the holding rule decides about provisioned concurrency.

    A cold start is billed like the rest of an invocation. The drain time is chosen such that an idle sandbox
    costs as much in one cycle as a cold start does; it is 0 if that needs no drain. Where idle sandboxes are
    free, no cycle is long enough: all that a later round can request are held.
    """
    idle = pricing.provisioned_gb_second
    cost = COLD_START_SECONDS * pricing.lambda_gb_second
    drain = max(0.0, cost / idle - COLD_START_SECONDS) if idle else math.inf
    return PodTimes(start=COLD_START_SECONDS, drain=drain)
