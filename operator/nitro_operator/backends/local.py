"""Actors as processes in the learner's pod."""

from nitro_operator.backends.base import ActorDeployment
from nitro_operator.observation.observed import Observed, learner_running


class LocalDeployment(ActorDeployment):
    """Actors that start and end with the learner."""

    def serving(self, observed: Observed) -> bool:
        return learner_running(observed)
