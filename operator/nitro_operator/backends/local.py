"""Actors as processes beside the learner: the learner's pod is all there is."""

from __future__ import annotations

from nitro_operator.backends.base import ScalePatch
from nitro_operator.builders import JobView
from nitro_operator.diagnosis import Problem
from nitro_operator.kinds import Object
from nitro_operator.observed import Observed, learner_running


class LocalActors:
    """See ActorBackend."""

    limited = False
    provisioned: int | None = None
    patience = 0.0

    def blocker(self) -> Problem | None:
        return None

    def children(self, view: JobView) -> list[Object]:  # noqa: ARG002
        return []

    def scaling(self, observed: Observed, actors: int) -> ScalePatch | None:  # noqa: ARG002
        return None

    def outdated(self, view: JobView, observed: Observed) -> Object | None:  # noqa: ARG002
        return None

    def ready(self, observed: Observed, granted: int) -> int:
        return granted if learner_running(observed) else 0

    def problem(self, observed: Observed) -> Problem | None:  # noqa: ARG002
        return None

    def serving(self, observed: Observed) -> bool:
        return learner_running(observed)
