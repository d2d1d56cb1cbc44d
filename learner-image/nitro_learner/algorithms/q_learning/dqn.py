"""DQN (Mnih et al. 2015) of one agent: the Q-learner of `learning.py`, fed with fragments as they arrive.

Each fragment goes into the replay buffer, and then come as many gradient steps as `replayRatio` says, while
the actors sample on with weights that may be some versions old.
"""

from __future__ import annotations

from typing import Any

from nitro_api.algorithms.q_learning import DqnHyperparameters
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.gradient import MeanNorm
from nitro_learner.algorithms.q_learning.learning import QLearning
from nitro_learner.algorithms.q_learning.surrogate import results_of
from nitro_learner.algorithms.updates import annealed
from nitro_learner.data.batch import Fragment


class Dqn(QLearning):
    """DQN of the only agent of an environment. See `OffPolicyLearner` for the interface."""

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: the only agent of its environment.
            device: a torch device.

        Raises:
            TypeError: the settings are not DQN's.
            TeamMisfit: the actions are not discrete.
        """
        if not isinstance(team.settings, DqnHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of DQN")
        super().__init__(team, device)
        self.max_staleness = team.settings.max_staleness
        self._rate = team.settings.learning_rate
        self._begin()

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Learner`. The rate is no part of the state: a run that goes on may have other rounds."""
        self._rate = annealed(self._settings, round, rounds)

    def take(self, fragments: list[Fragment]) -> None:
        """See `OffPolicyLearner`. The steps before a fragment tell its random draws from others'."""
        for fragment in fragments:
            self._arrived.append(fragment)
            _, _, steps = self._absorb([fragment], self._rate, self._env_steps, self._norms)
            self._gradient_steps += steps

    def replay(self) -> bool:
        """See `OffPolicyLearner`: all gradient steps that are due were taken as the fragments arrived."""
        return False

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        """See `OffPolicyLearner`."""
        self._check_finite(round)
        self._replay.seal()
        rows = self._rows(self._arrived)
        trainer = self._trainer(rows.shape, self._norms)
        stats = {
            "learning_rate": self._rate,
            "epsilon": self.epsilon,
            "gradient_steps": float(self._gradient_steps),
        }
        results = results_of(trainer, rows, stats)
        self._begin()
        return {self._team.published(policy): result for policy, result in results.items()}

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        super().adopt(state)
        self._begin()

    def _begin(self) -> None:
        """Begin a round."""
        self._arrived: list[Fragment] = []
        self._norms = {name: MeanNorm() for name in self._classes}
        self._gradient_steps = 0
