"""The state of a run between two rounds, without that of the algorithm, the scaler and the ledger."""

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.evaluation import cut_warning
from nitro_learner.sampling.fragments import end_state
from nitro_learner.sampling.plans import EvaluationResult
from nitro_learner.training.short_episodes import short
from nitro_learner.training.stop import Progress

logger = logging.getLogger(__name__)

EndState = dict[str, NDArray[Any]]
_WINDOW = 20
_CUT_ROUNDS = 10
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
    "environment get_state() and set_state() (docs/environments.md says how)."
)


@dataclass
class TrainingState:
    """The run after `round` rounds.

    Attributes:
        round: rounds trained on.
        actors: I_{round + 1}.
        actor_rounds: rollouts that the rounds learned from.
        env_steps: environment steps trained on.
        seconds: wall time of the rounds done, over all sittings.
        recent_returns: undiscounted returns of the last 20 training episodes.
        recent_lengths: their steps.
        policy_returns: returns of each policy: of each episode the mean over the agents that it plays.
        recent_cuts: of each of the last 10 rounds the share of its steps that belong to episodes which a
            rollout's end cut off for good.
        recent_steps: of each of them its steps.
        end_states: newest end state of each slot ("state/..." tensors), whatever round it is from, or only
            those of the last round where idle slots are reset.
        evaluation_mean: mean return of the newest evaluation.
        evaluation_round: round after which its policy was trained.
        best_evaluation: highest mean return of an evaluation so far.
        best_evaluation_round: round after which that one's policy was trained.
        best_reward: highest mean of `recent_returns` so far.
        warned_of_cuts: whether the user was warned of episodes that cannot go on; no part of a checkpoint.
        warned_of_cut_evaluations: the same for evaluation episodes that did not end.
    """

    actors: int
    round: int = 0
    actor_rounds: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    recent_returns: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    recent_lengths: deque[int] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    policy_returns: dict[str, deque[float]] = field(default_factory=dict)
    recent_cuts: deque[float] = field(default_factory=lambda: deque(maxlen=_CUT_ROUNDS))
    recent_steps: deque[int] = field(default_factory=lambda: deque(maxlen=_CUT_ROUNDS))
    end_states: dict[int, EndState] = field(default_factory=dict)
    evaluation_mean: float | None = None
    evaluation_round: int | None = None
    best_evaluation: float | None = None
    best_evaluation_round: int | None = None
    best_reward: float | None = None
    warned_of_cuts: bool = False
    warned_of_cut_evaluations: bool = False

    @property
    def reward_mean(self) -> float | None:
        """Mean return of the last 20 training episodes; None before the first has ended."""
        return fmean(self.recent_returns) if self.recent_returns else None

    @property
    def reward_std(self) -> float | None:
        """Their standard deviation."""
        return pstdev(self.recent_returns) if self.recent_returns else None

    @property
    def episode_length(self) -> float | None:
        """Mean number of steps of the same episodes; None before the first has ended."""
        return fmean(self.recent_lengths) if self.recent_lengths else None

    def policy_reward(self, policy: str) -> float | None:
        """Mean return of a policy's agents in the last 20 episodes; None before the first has ended."""
        returns = self.policy_returns.get(policy)
        return fmean(returns) if returns else None

    @property
    def cut_share(self) -> float | None:
        """The share of the last rounds' steps that were cut off; None before the first round."""
        return fmean(self.recent_cuts, self.recent_steps) if self.recent_cuts else None

    def progress(self, cost: float) -> Progress:
        """The values that the stop conditions compare; `cost` is that of the run so far."""
        return Progress(
            round=self.round,
            actor_rounds=self.actor_rounds,
            env_steps=self.env_steps,
            evaluation_mean=self.evaluation_mean,
            cost=cost,
            seconds=self.seconds,
            evaluated=self.evaluation_round,
            best=self.best_evaluation_round,
            best_mean=self.best_evaluation,
        )

    def absorb(
        self,
        fragments: Iterable[Fragment],
        agents: Mapping[str, str],
        *,
        keep_end_states: bool,
        reset_idle_slots: bool = False,
    ) -> list[float]:
        """Take in the fragments of the next round, sorted by slot, and return the episode returns that they
        finished, summed over the agents. `agents` has the policy of each agent, in the wire's order.
        """
        if reset_idle_slots:
            self.end_states.clear()
        finished: list[float] = []
        before = self.env_steps
        cut_off, resumable = 0, True  # steps of episodes that a rollout's end cut off for good
        for fragment in fragments:
            steps = int(fragment.meta["steps"])
            # Not the round's actors: an off-policy round ends before all of them have answered.
            self.actor_rounds += 1
            self.env_steps += steps
            finished.extend(fragment.team_returns.tolist())
            self.recent_lengths.extend(fragment.tensors["episode_lengths"].tolist())
            by_agent = fragment.returns_of(list(agents))
            for policy in dict.fromkeys(agents.values()):
                own = [by_agent[agent] for agent, played in agents.items() if played == policy]
                recent = self.policy_returns.setdefault(policy, deque(maxlen=_WINDOW))
                recent.extend(np.mean(own, axis=0).tolist())
            state = end_state(fragment)
            if not (state and keep_end_states):
                cut_off += steps - int(fragment.tensors["episode_lengths"].sum())
                resumable = resumable and bool(state)
            else:
                # Copies: the fragment's arrays are views of its whole message, which would stay in memory.
                self.end_states[fragment.slot] = {name: np.array(value) for name, value in state.items()}
        of_round = max(self.env_steps - before, 1)
        share = cut_off / of_round
        self.recent_cuts.append(share)
        self.recent_steps.append(of_round)
        # With resumeEpisodes: false, episodes are cut on purpose: no warning.
        if not resumable and not self.warned_of_cuts and short(share):
            self.warned_of_cuts = True
            logger.warning(_CUT)
        self.recent_returns.extend(finished)
        if not self.recent_returns and before < _ENDLESS_STEPS <= self.env_steps:
            logger.warning(_ENDLESS)
        mean = self.reward_mean
        if mean is not None:
            self.best_reward = mean if self.best_reward is None else max(mean, self.best_reward)
        self.round += 1
        return finished

    def forget_policies(self, names: Collection[str], kept: Collection[str]) -> None:
        """Forget the returns of policies that now are others, `names`, and of those that are not `kept`."""
        self.policy_returns = {
            name: returns
            for name, returns in self.policy_returns.items()
            if name in kept and name not in names
        }

    def take_evaluation(self, result: EvaluationResult) -> None:
        """Take in the newest evaluation."""
        self.evaluation_mean = mean = fmean(result.returns.tolist())
        self.evaluation_round = self.round
        if self.best_evaluation is None or mean > self.best_evaluation:
            self.best_evaluation, self.best_evaluation_round = mean, self.round
        warning = cut_warning(result.lengths)
        if warning and not self.warned_of_cut_evaluations:
            self.warned_of_cut_evaluations = True
            logger.warning(warning)

    def state_dict(self) -> dict[str, Any]:
        return {
            "actors": self.actors,
            "round": self.round,
            "actor_rounds": self.actor_rounds,
            "env_steps": self.env_steps,
            "seconds": self.seconds,
            "recent_returns": list(self.recent_returns),
            "recent_lengths": list(self.recent_lengths),
            "policy_returns": {name: list(returns) for name, returns in self.policy_returns.items()},
            "recent_cuts": list(self.recent_cuts),
            "recent_steps": list(self.recent_steps),
            "end_states": dict(self.end_states),
            "evaluation_mean": self.evaluation_mean,
            "evaluation_round": self.evaluation_round,
            "best_evaluation": self.best_evaluation,
            "best_evaluation_round": self.best_evaluation_round,
            "best_reward": self.best_reward,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.actors = state["actors"]
        self.round = state["round"]
        self.actor_rounds = state["actor_rounds"]
        self.env_steps = state["env_steps"]
        self.seconds = state["seconds"]
        self.recent_returns = deque(state["recent_returns"], maxlen=_WINDOW)
        self.recent_lengths = deque(state["recent_lengths"], maxlen=_WINDOW)
        self.policy_returns = {
            name: deque(returns, maxlen=_WINDOW) for name, returns in state["policy_returns"].items()
        }
        self.recent_cuts = deque(state["recent_cuts"], maxlen=_CUT_ROUNDS)
        self.recent_steps = deque(state["recent_steps"], maxlen=_CUT_ROUNDS)
        self.end_states = dict(state["end_states"])
        self.evaluation_mean = state["evaluation_mean"]
        self.evaluation_round = state["evaluation_round"]
        self.best_evaluation = state["best_evaluation"]
        self.best_evaluation_round = state["best_evaluation_round"]
        self.best_reward = state["best_reward"]
