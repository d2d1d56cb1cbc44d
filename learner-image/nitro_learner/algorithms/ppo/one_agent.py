"""PPO with a recurrent layer: IPPO of a team of one agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_api import JobSpec
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult
from nitro_learner.algorithms.ppo.several import MultiPpo
from nitro_learner.data.batch import Fragment


class RecurrentPpo:
    """PPO on whole rounds, with memories. See `OnPolicyLearner` for the interface."""

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    def __init__(self, spec: JobSpec, environment: DescribedEnvironment, device: str = "cpu") -> None:
        """Start from `spec` (resolved) and the actors' environment."""
        team = Team(
            agents=(AGENT,),
            classes=environment.classes,
            state_size=None,
            algorithm=spec.algorithm.name,
            settings=spec.algorithm.hyperparameters,
            network=spec.network,
            seed=spec.seed,
            rounds=spec.stop.rounds,
        )
        self._learner = MultiPpo(team, device)

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        return {DEFAULT_POLICY: self._learner.weights()[AGENT]}

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Learner`."""
        self._learner.begin_round(round, rounds)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyLearner`."""
        return {DEFAULT_POLICY: self._learner.update(fragments, round)[AGENT]}

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`."""
        return self._learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self._learner.load_state_dict(state)

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self._learner.adopt(state)

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Learner`."""
        self._learner.copy_slots(sources)
