"""Actors as pods of one Knative Revision, whose scale is patched in place."""

import math

from nitro_api.pools.holding import PodTimes
from nitro_operator.backends.base import ActorDeployment, ScalePatch
from nitro_operator.backends.release import KnativeRelease
from nitro_operator.builders import JobView, actor_service
from nitro_operator.builders.actors import MAX_SCALE, MIN_SCALE
from nitro_operator.kube import names
from nitro_operator.kube.kinds import REVISION, Object
from nitro_operator.observation.diagnosis import Problem, actor_problem
from nitro_operator.observation.observed import Observed, actors_of, condition, holds, ready


class KnativeDeployment(ActorDeployment):
    """Actor pods. Their Revision's readiness counts: without an ingress the Service never becomes ready."""

    limited = True
    sleeps = True

    def __init__(self, release: KnativeRelease, per_pod: int) -> None:
        self._release = release
        self._per_pod = per_pod

    def held(self, observed: Observed) -> int:
        annotations = (observed.revision or {}).get("metadata", {}).get("annotations") or {}
        scale = str(annotations.get(MIN_SCALE, ""))
        return int(scale) * self._per_pod if scale.isdecimal() else 0

    def times(self, measured: PodTimes) -> PodTimes:
        return measured

    def blocker(self) -> Problem | None:
        return self._release.problem

    def children(self, view: JobView) -> list[Object]:
        return [actor_service(view)]

    def scaling(self, observed: Observed, actors: int) -> ScalePatch | None:
        revision = observed.revision
        if revision is None:
            return None
        wanted = scale_annotations(math.ceil(actors / self._per_pod))
        annotations = revision["metadata"].get("annotations") or {}
        if all(annotations.get(key) == value for key, value in wanted.items()):
            return None
        # Both keys in one patch: Knative refuses a minimum above the maximum.
        patch = {"metadata": {"annotations": wanted}}
        return ScalePatch(REVISION, revision["metadata"]["name"], patch)

    def outdated(self, view: JobView, observed: Observed, *, resumed: bool) -> Object | None:
        service = observed.actor_service
        if service is None:
            return None
        wanted = actor_service(view)["metadata"]["annotations"][names.TEMPLATE_HASH]
        same = (service["metadata"].get("annotations") or {}).get(names.TEMPLATE_HASH) == wanted
        failed = resumed and (condition(observed.revision, "Ready") or {}).get("status") == "False"
        return service if failed or not same else None

    def ready(self, observed: Observed, granted: int) -> int:  # noqa: ARG002
        return sum(actors_of(pod) for pod in observed.actor_pods if ready(pod))

    def problem(self, observed: Observed) -> Problem | None:
        return self._release.problem or actor_problem(observed.actor_pods, observed.revision)

    def serving(self, observed: Observed) -> bool:
        return holds(observed.revision, "Ready")


def scale_annotations(pods: int) -> dict[str, str]:
    """The annotations for a number of pods. 0 releases all of them, and a request can start one again."""
    return {MIN_SCALE: str(pods), MAX_SCALE: str(max(pods, 1))}
