"""What the reconcile needs of an actor backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nitro_operator.builders import JobView
from nitro_operator.diagnosis import Problem
from nitro_operator.kinds import Kind, Object
from nitro_operator.observed import Observed


@dataclass(frozen=True)
class ScalePatch:
    """A merge patch that sets the number of actors."""

    kind: Kind
    name: str
    patch: Object


class ActorBackend(Protocol):
    """One way to run actors. Pure: it says what should be, the reconcile does it.

    Usage::

        backend = backend_of(spec, release, functions.state(key))
        if backend.blocker() is None:
            apply(backend.children(view))
            patch = backend.scaling(observed, actors=12)
    """

    limited: bool
    """Whether its actors count towards the platform's limit."""
    provisioned: int | None
    """Sandboxes that are kept ready and billed while idle; None where nothing of the kind is."""

    patience: float
    """Seconds for which actors are held for a learner that is silent or starting anew."""

    def blocker(self) -> Problem | None:
        """Why no job of this backend can run in this cluster, if so."""

    def children(self, view: JobView) -> list[Object]:
        """The objects that run the actors."""

    def scaling(self, observed: Observed, actors: int) -> ScalePatch | None:
        """What to patch so that `actors` pods are held, 0 = all are let go; None where it is so already."""

    def outdated(self, view: JobView, observed: Observed) -> Object | None:
        """A child that must be made anew before the next start of the learner, if any."""

    def ready(self, observed: Observed, granted: int) -> int:
        """Actors that can take a request now."""

    def problem(self, observed: Observed) -> Problem | None:
        """What keeps the actors from serving, if anything does."""

    def serving(self, observed: Observed) -> bool:
        """Whether requests are answered."""
