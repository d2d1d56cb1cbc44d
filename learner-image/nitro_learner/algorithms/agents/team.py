"""A team: agents of one environment that learn by one algorithm. The only agent of an environment is a team,
too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.algorithms.record import Hyperparameters
from nitro_api.spec.environment import Environment
from nitro_api.spec.network import Network
from nitro_learner.algorithms.base import OnPolicyLearner

GroupBatch = Literal["equal", "all"]
"""What a policy of several agents learns from in a round. `equal`: a uniform subset as large as one agent's
data. `all`: the data of all of its agents."""


class TeamMisfit(Exception):  # noqa: N818
    """The environment or its data is not what a team's algorithm learns from; the message says what to
    change."""


@dataclass(frozen=True)
class Team:
    """Agents of one environment that learn by one algorithm, and what the job says of it.

    Attributes:
        agents: in the order of the wire: by class in the order of the classes' names, then as a class lists
            them.
        classes: all agent classes of the environment, ordered by name. Classes of other teams count for the
            global state only.
        state_size: S of the global state that fragments carry; None where the state is the concatenation of
            the observations of all agents, in the order of the wire.
        algorithm: its name.
        settings: resolved.
        network: resolved.
        rounds: spec.stop.rounds, for settings that change over a run; None without that limit. A user may
            change it while the run goes on.
        environment: spec.environment, resolved.
        reward: with `own` each agent learns from its own reward, with `team` from the sum over the team's
            agents.
        group_batch: see `GroupBatch`.
        agent_ids: whether an agent's index in its class is appended to its observation, one-hot.
        rllib: spec.algorithm.rllib.
    """

    agents: tuple[str, ...]
    classes: tuple[AgentClass, ...]
    state_size: int | None
    algorithm: str
    settings: Hyperparameters
    network: Network
    seed: int
    rounds: int | None
    environment: Environment
    reward: Literal["own", "team"] = "own"
    group_batch: GroupBatch = "equal"
    agent_ids: bool = False
    rllib: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise TeamMisfit if the network of several agents has convolutions."""
        if self.network.type != "mlp" and not self.single:
            raise TeamMisfit(
                f"spec.network.type: {self.algorithm} has networks without convolutions; set it to mlp"
            )

    @property
    def single(self) -> bool:
        """Whether it is the only agent of its environment."""
        return not self.classes[0].mortal

    def published(self, policy: str) -> str:
        """A policy's name outside of its learner: its first agent's, or `default` of an only agent."""
        return DEFAULT_POLICY if self.single else policy

    def index(self, agent: str) -> int:
        """The agent's position among all agents of the environment, in the order of the wire. It keys random
        numbers, which agents of different teams must not share."""
        return [name for agent_class in self.classes for name in agent_class.agents].index(agent)

    @property
    def global_state_size(self) -> int:
        """S of the global state, whether fragments carry it or it is concatenated from observations."""
        if self.state_size is not None:
            return self.state_size
        return sum(
            len(agent_class.agents) * math.prod(agent_class.observation["shape"])
            for agent_class in self.classes
        )


@runtime_checkable
class SharingLearner(OnPolicyLearner, Protocol):
    """Learns a team whose agents may share policies.

    A policy has the name of one of its agents. At first each agent plays the policy of its own name; with
    `agent_ids` all agents of a class play that of its first agent. The data that an agent has learned from
    stay with the agent. Weights, optimiser state, targets and normalisers belong to the policy.
    """

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Let each policy be played by the agents of its group.

        Args:
            groups: every agent of the team once, by the name of its policy. An existing policy goes on. A new
                policy is a copy of the policy that the agent of its name plays now.

        Raises:
            ValueError: a group has agents of several classes, or an agent is missing or occurs twice.
        """
        ...

    def distances(
        self, agents: Sequence[str], observations: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        """How much the agents' policies differ: the mean over observations of KL(pi_i || pi_j), f64 [n, n].

        Policies of Q-learners are softmax(Q / std Q).

        Args:
            agents: of one class.
            observations: raw, [m, *frame].
            available: bool [m, C] where the class's actions are masked, else None.
        """
        ...
