"""A team whose policies are one number each, for tests of what shares, regroups and saves them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.data.batch import Fragment


class ToyTeam:
    """A SharingLearner: a round adds the mean reward of a policy's agents to the policy's number."""

    def __init__(self, team: Team, device: str = "cpu") -> None:
        self.team = team
        self.device = device
        self.groups = Groups.initial(team)
        self.numbers = dict.fromkeys(self.policies, 0.0)
        self.asked: list[tuple[tuple[str, ...], int]] = []

    @property
    def policies(self) -> tuple[str, ...]:
        return self.groups.policies

    @property
    def agents(self) -> Mapping[str, str]:
        return self.groups.agents

    def weights(self) -> dict[str, PolicyWeights]:
        return {
            name: PolicyWeights({}, {"number": np.float32([self.numbers[name]])}) for name in self.policies
        }

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:  # noqa: ARG002
        surrogate: Any = object()
        for name in self.policies:
            own = self.groups.class_of(name).name
            places = self.groups.positions(name)
            rewards = [fragment.by_class[own]["rewards"][:, :, places] for fragment in fragments]
            self.numbers[name] += float(np.mean(rewards))
        return {name: UpdateResult({"kl": self.numbers[name]}, surrogate) for name in self.policies}

    def begin_round(self, round: int, rounds: int) -> None: ...

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        before, self.groups = self.groups, Groups(self.team, groups)
        self.numbers = {
            name: self.numbers[name if name in before.policies else before.agents[name]]
            for name in self.policies
        }

    def distances(
        self, agents: Sequence[str], observations: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        self.asked.append((tuple(agents), len(observations)))
        assert available is None or len(available) == len(observations)
        values = np.array([self.numbers[self.agents[agent]] for agent in agents])
        return np.asarray((values[:, None] - values) ** 2)

    def state_dict(self) -> dict[str, Any]:
        return {"groups": self.groups.to_dict(), "numbers": dict(self.numbers)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.groups = Groups(self.team, state["groups"])
        self.numbers = dict(state["numbers"])

    def adopt(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state)

    def copy_slots(self, sources: Mapping[int, int]) -> None: ...
