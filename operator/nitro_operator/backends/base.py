"""The interface between the reconcile and the ways to run actors."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from nitro_api.pools.holding import PodTimes
from nitro_operator.builders import JobView
from nitro_operator.functions import Want
from nitro_operator.kube.kinds import Kind, Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed, learner_running


@dataclass(frozen=True)
class ScalePatch:
    """A merge patch that sets the number of actors."""

    kind: Kind
    name: str
    patch: Object


class ActorDeployment(ABC):
    """One way to run actors. Pure: it describes the desired state, and the reconcile changes the cluster.

    The defaults are right for actors that need no object in the cluster.

    Usage::

        deployment = deployment_of(spec, release, functions.state(key))
        if deployment.blocker() is None:
            apply(deployment.children(view))
            patch = deployment.scaling(observed, actors=12)
    """

    sleeps: bool = False
    """Whether its actors are pods that can sleep in place."""

    limited: bool = False
    """Whether its actors count towards the platform's limit."""

    provisioned: int | None = None
    """Sandboxes that are kept ready and billed while idle; None for backends without them."""

    patience: float = 0.0
    """Seconds for which actors are held while the learner is silent or restarts."""

    def held(self, observed: Observed) -> int:  # noqa: ARG002
        """Number of actors that are held now, starting ones included."""
        return 0

    def times(self, measured: PodTimes) -> PodTimes | None:  # noqa: ARG002
        """The times to start an actor and to release one; None if an idle actor costs nothing."""
        return None

    def blocker(self) -> Problem | None:
        """The reason why the learner cannot be started, if there is one."""
        return None

    def children(self, view: JobView) -> list[Object]:  # noqa: ARG002
        """The objects that run the actors."""
        return []

    def function(self, view: JobView, *, active: bool, actors: int) -> Want | None:  # noqa: ARG002
        """The function outside the cluster that the job needs; None if it needs none."""
        return None

    def scaling(self, observed: Observed, actors: int) -> ScalePatch | None:  # noqa: ARG002
        """The patch after which `actors` pods are held (0 = none); None if nothing has to change."""
        return None

    def outdated(self, view: JobView, observed: Observed, *, resumed: bool) -> Object | None:  # noqa: ARG002
        """The child that must be created again before the learner starts, if there is one.

        Args:
            resumed: whether the run was started before. A failed child is created again only in that case.
        """
        return None

    def ready(self, observed: Observed, granted: int) -> int:
        """Number of actors that can take a request now."""
        return granted if self.serving(observed) and learner_running(observed) else 0

    def problem(self, observed: Observed) -> Problem | None:  # noqa: ARG002
        """The reason why actors do not serve, if there is one."""
        return None

    @abstractmethod
    def serving(self, observed: Observed) -> bool:
        """Whether requests are answered."""
