"""MinionsRL's scaler, and the one that it is compared with (Yu et al., AAAI 2024; Nitro, section 8.3)."""

from collections import deque
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from nitro_api import JobSpec
from nitro_api.spec.scaling import Scaling
from nitro_learner.scalers.agent import AgentError, ScalingAgent, features
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler

_ROUNDS = 5


class MinionsRLScaler(Scaler):
    """A pre-trained agent decides from the last round's features: I_{k+1} is its most probable choice, I_1 is
    initialActors. It reads wall times, so two runs of one job may decide differently.

    A new run reads the agent from the file, a resumed run from the checkpoint. So an error in the file is
    kept until the agent is used. For a new run that is too late, so `runs.open_run` calls `load_agent`
    first."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.scaling.agent, "the job's validation asks for it"
        assert spec.stop.budget_dollars, "the job's validation asks for it"
        self._budget = spec.stop.budget_dollars
        self._agent: ScalingAgent | AgentError
        self._spent: dict[str, Any] | None = None
        try:
            self._agent = load_agent(spec.scaling)
            self._spent = asdict(self._agent.spent)
        except AgentError as error:
            self._agent = error

    @property
    def agent(self) -> ScalingAgent:
        """The agent. Raises AgentError if there is none."""
        if isinstance(self._agent, AgentError):
            raise self._agent
        return self._agent

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(self.agent.best(features(outcome, self._budget)))

    def state_dict(self) -> dict[str, Any]:
        """The agent, and the cost of its pre-training. So a resumed run keeps
        the agent that it began with, even if the file has changed."""
        return {"agent": self.agent.state_dict(), "spent": self._spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        fewest, most = self.scaling.min_actors, self.scaling.max_actors
        agent = ScalingAgent(fewest, most, task={}, seed=self.seed)
        agent.load_state_dict(state["agent"])
        self._agent, self._spent = agent, state["spent"]


def load_agent(scaling: Scaling) -> ScalingAgent:
    """The agent in the job's file.

    Raises:
        AgentError: the file is missing or damaged, or its agent chooses from another range.
    """
    assert scaling.agent, "the job's validation asks for it"
    path = Path(scaling.agent)
    agent = ScalingAgent.load(path)
    if (agent.fewest, agent.most) != (scaling.min_actors, scaling.max_actors):
        raise AgentError(
            path,
            f"chooses {agent.fewest} to {agent.most} actors, but minActors is {scaling.min_actors} and "
            f"maxActors {scaling.max_actors}; set the range that it was trained for, or pre-train another",
        )
    return agent


class MinionsRLAdaptScaler(Scaler):
    """The adaptive rule that MinionsRL is compared with: the nearer to the target, the more actors.

    I_{k+1} = clip(floor(mean of the last 5 rewards / target * I_max), I_min, I_max).

    A round's reward is the mean return of the training episodes that ended in it; rounds in which none ended
    are left out. Before the first reward: I_min. The target is spec.stop.targetReward.
    """

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.stop.target_reward, "the job's validation asks for a target above zero"
        self._target = spec.stop.target_reward
        self._rewards: deque[float] = deque(maxlen=_ROUNDS)

    def decide(self, outcome: RoundOutcome) -> Decision:
        if outcome.reward_round is not None:
            self._rewards.append(outcome.reward_round)
        share = fmean(self._rewards) / self._target if self._rewards else 0.0
        return Decision(self.clip(share * self.scaling.max_actors))

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": list(self._rewards)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rewards = deque(state["rewards"], maxlen=_ROUNDS)
