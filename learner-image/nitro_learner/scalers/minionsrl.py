"""MinionsRL's scaler: a pre-trained agent decides from what the last round looked like (Yu et al., AAAI 2024;
Nitro, section 8.3).

It reads wall times, so two runs of one job need not decide alike.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from nitro_api import JobSpec
from nitro_api.scaling import Scaling
from nitro_learner.scalers.agent import AgentError, ScalingAgent, features
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler


class MinionsRLScaler(Scaler):
    """I_{k+1} is the agent's most probable choice; I_1 is initialActors.

    The agent is the file's where a run begins, and the checkpoint's where it goes on. So a file that cannot
    be used is told by the first use of the agent, which is too late for a run that begins: `runs.open_run`
    asks `load_agent` before.
    """

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
        """Raises AgentError where there is none."""
        if isinstance(self._agent, AgentError):
            raise self._agent
        return self._agent

    def decide(self, outcome: RoundOutcome) -> Decision:
        return Decision(self.agent.best(features(outcome, self._budget)))

    def state_dict(self) -> dict[str, Any]:
        """The agent itself, and what its pre-training took (None where an older checkpoint did not know), so
        that a run goes on with the one it began with, whatever became of the file."""
        return {"agent": self.agent.state_dict(), "spent": self._spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        fewest, most = self.scaling.min_actors, self.scaling.max_actors
        agent = ScalingAgent(fewest, most, task={}, seed=self.seed)
        agent.load_state_dict(state["agent"])
        self._agent, self._spent = agent, state.get("spent", self._spent)


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
