"""What a run knows between two rounds, besides what the algorithm, the scaler and the ledger keep
themselves.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.batch import Fragment
from nitro_learner.evaluation import cut_warning
from nitro_learner.plans import EvaluationResult
from nitro_learner.stop import Progress

logger = logging.getLogger(__name__)

EndState = dict[str, NDArray[Any]]
_WINDOW = 20
_ENDLESS_STEPS = 100_000
_ENDLESS = (
    f"No episode has ended in {_ENDLESS_STEPS:,} steps, so there is no training reward to report. If they "
    "never end, give the environment a time limit (spec.environment.kwargs.max_episode_steps, or "
    "gymnasium.wrappers.TimeLimit around your own); if they are longer than a rollout, set "
    "spec.environment.resumeEpisodes: true or raise rolloutLength."
)
_CUT = (
    "Most steps of this round belong to episodes that a rollout's end cut off, because this environment "
    "cannot be resumed. They do not count as training episodes: training rewards are those of short ones. "
    "Set spec.environment.envsPerActor: 1 or raise rolloutLength until an episode fits, or give the "
    "environment get_state() and set_state() (docs/development.md says how)."
)


@dataclass
class TrainingState:
    """The run after `round` rounds.

    Attributes:
        round: rounds trained on; weights version `round` is the newest, version 0 the initial one.
        actors: I_{round + 1}.
        actor_rounds: rollouts that the rounds learned from.
        env_steps: environment steps trained on.
        seconds: wall time of the rounds done, over all sittings.
        recent_returns: undiscounted returns of the last 20 training episodes.
        end_states: newest end state of each slot ("state/..." tensors), whatever round it is from.
        evaluation_mean: mean return of the newest evaluation.
        best_reward: highest mean of `recent_returns` so far.
        told_of_cuts: whether the user has been warned of episodes that cannot go on; no part of a checkpoint.
        told_of_cut_evaluations: the same of evaluation episodes that did not end.
    """

    actors: int
    round: int = 0
    actor_rounds: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    recent_returns: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    end_states: dict[int, EndState] = field(default_factory=dict)
    evaluation_mean: float | None = None
    best_reward: float | None = None
    told_of_cuts: bool = False
    told_of_cut_evaluations: bool = False

    @property
    def reward_mean(self) -> float | None:
        """Mean return of the last 20 training episodes; None before the first has ended."""
        return fmean(self.recent_returns) if self.recent_returns else None

    @property
    def reward_std(self) -> float | None:
        """Their standard deviation."""
        return pstdev(self.recent_returns) if self.recent_returns else None

    def progress(self, cost: float) -> Progress:
        """What the stop conditions look at; `cost` is the run's so far."""
        return Progress(
            round=self.round,
            actor_rounds=self.actor_rounds,
            env_steps=self.env_steps,
            evaluation_mean=self.evaluation_mean,
            cost=cost,
            seconds=self.seconds,
        )

    def absorb(self, fragments: Iterable[Fragment], *, keep_end_states: bool) -> list[float]:
        """Takes in the fragments of the next round, sorted by slot, and returns the episode returns that they
        finished.
        """
        finished: list[float] = []
        before = self.env_steps
        cut_off = 0  # steps of episodes that cannot go on
        for fragment in fragments:
            steps = int(fragment.meta["steps"])
            # Not the round's actors: an off-policy round ends before all of them have answered.
            self.actor_rounds += 1
            self.env_steps += steps
            finished.extend(fragment.tensors["episode_returns"].tolist())
            state = {name: value for name, value in fragment.tensors.items() if name.startswith("state/")}
            if not state:
                cut_off += steps - int(fragment.tensors["episode_lengths"].sum())
            elif keep_end_states:
                # Copies: the fragment's arrays are views of its whole message, which would stay in memory.
                self.end_states[fragment.slot] = {name: np.array(value) for name, value in state.items()}
        if not self.told_of_cuts and 2 * cut_off > self.env_steps - before:
            self.told_of_cuts = True
            logger.warning(_CUT)
        self.recent_returns.extend(finished)
        if not self.recent_returns and before < _ENDLESS_STEPS <= self.env_steps:
            logger.warning(_ENDLESS)
        mean = self.reward_mean
        if mean is not None:
            self.best_reward = mean if self.best_reward is None else max(mean, self.best_reward)
        self.round += 1
        return finished

    def take_evaluation(self, result: EvaluationResult) -> None:
        """Takes in the newest evaluation."""
        self.evaluation_mean = fmean(result.returns.tolist())
        warning = cut_warning(result.lengths)
        if warning and not self.told_of_cut_evaluations:
            self.told_of_cut_evaluations = True
            logger.warning(warning)

    def state_dict(self) -> dict[str, Any]:
        return {
            "actors": self.actors,
            "round": self.round,
            "actor_rounds": self.actor_rounds,
            "env_steps": self.env_steps,
            "seconds": self.seconds,
            "recent_returns": list(self.recent_returns),
            "end_states": dict(self.end_states),
            "evaluation_mean": self.evaluation_mean,
            "best_reward": self.best_reward,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        for name, value in state.items():
            setattr(self, name, value)
        self.recent_returns = deque(state["recent_returns"], maxlen=_WINDOW)
        self.end_states = dict(state["end_states"])
