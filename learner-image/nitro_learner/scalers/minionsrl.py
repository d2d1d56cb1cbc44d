"""MinionsRL's scaler: a pre-trained agent decides from what the last round looked like (Yu et al., AAAI 2024;
Nitro, section 8.3).

It reads wall times, so two runs of one job need not decide alike.
"""

from pathlib import Path
from typing import Any

from nitro_api import JobSpec
from nitro_learner.scalers.agent import AgentError, ScalingAgent, features
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler


class MinionsRLScaler(Scaler):
    """I_{k+1} is the agent's most probable choice; I_1 is initialActors.

    Raises:
        AgentError: the agent's file is missing or damaged, or it chooses from another range.
    """

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        assert spec.scaling.agent, "the job's validation asks for it"
        assert spec.stop.budget_dollars, "the job's validation asks for it"
        self._budget = spec.stop.budget_dollars
        path = Path(spec.scaling.agent)
        self.agent = ScalingAgent.load(path)
        fewest, most = self.scaling.min_actors, self.scaling.max_actors
        if (self.agent.fewest, self.agent.most) != (fewest, most):
            raise AgentError(
                path,
                f"chooses {self.agent.fewest} to {self.agent.most} actors, but minActors is {fewest} and "
                f"maxActors {most}; set the range that it was trained for, or pre-train another",
            )

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(self.agent.best(features(outcome, self._budget)))

    def state_dict(self) -> dict[str, Any]:
        """The agent itself, so that a run goes on with the one it began with, whatever became of the file."""
        return {"agent": self.agent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
