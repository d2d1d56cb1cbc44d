"""The episodes of an evaluation: which of them E environments play, and what came of them."""

from typing import Protocol

import numpy as np

EVALUATION_KWARGS = {"evaluationKwargs": True}
"""What an environment's spec says of actors that play evaluations with kwargs of their own: a learner of
the release before asks for it."""


class _Environments(Protocol):
    count: int
    returns: np.ndarray
    lengths: np.ndarray

    def reset_one(self, index: int) -> None: ...


class Evaluation:
    """Whole episodes that E environments play.

        evaluation = Evaluation(environment, episodes, max_steps)
        while evaluation.running:
            ...                                       # choose actions and step the environment
            evaluation.end_step(terminated | truncated)

    Environment i plays episodes i, i + E, ...: which episodes count does not depend on how long they take.

    Args:
        max_steps: an episode is cut after so many steps.

    Attributes:
        returns: f64 [episodes, agents].
        lengths: i64 [episodes].
    """

    def __init__(self, environment: _Environments, episodes: int, max_steps: int) -> None:
        self.returns = np.zeros((episodes, *environment.returns.shape[1:]))
        self.lengths = np.zeros(episodes, np.int64)
        self._environment = environment
        self._max_steps = max_steps
        self._episodes = np.arange(environment.count)
        """The episode that each environment plays; those from `episodes` on do not count."""

    @property
    def running(self) -> bool:
        """Whether an episode that counts has not ended yet."""
        return bool((self._episodes < len(self.lengths)).any())

    def end_step(self, ended: np.ndarray) -> None:
        """Take in the episodes that ended in the last step, bool [E], and those that are cut after it. Each
        of these environments begins its next episode."""
        environment = self._environment
        for index in np.flatnonzero(ended | (environment.lengths >= self._max_steps)):
            episode = self._episodes[index]
            if episode < len(self.lengths):
                self.returns[episode] = environment.returns[index]
                self.lengths[episode] = environment.lengths[index]
            self._episodes[index] += environment.count
            environment.reset_one(int(index))
