"""Policy sets: one policy as before, several with one version, and checkpoints of the release before."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from learner_support import HOPPER, fragment, job, learner_of, parts_of, plain
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment


def ppo(seed: int = 0) -> Ppo:
    return learner_of(job("tuned", seed=seed).spec, HOPPER)


def test_a_set_of_one_policy_learns_the_same_as_its_algorithm_alone() -> None:
    alone, policies = ppo(), registry.make_policies(job("tuned").spec, HOPPER)
    assert policies.names == (DEFAULT_POLICY,)
    assert policies.agents == SINGLE_AGENT
    fragments = [fragment(slot) for slot in range(2)]
    expected, found = alone.update(fragments, 1), policies.update(fragments, 1)
    assert found[DEFAULT_POLICY].stats == expected[DEFAULT_POLICY].stats
    (learner,) = policies.learners
    assert isinstance(learner, Ppo)
    assert torch.equal(parts_of(learner)[1], parts_of(alone)[1])


def test_the_version_counts_updates_and_survives_a_checkpoint() -> None:
    policies = PolicySet([ppo()], SINGLE_AGENT, "rounds")
    assert policies.version == 0
    for number in (1, 2):
        policies.update([fragment(0)], number)
        assert policies.version == number
    again = PolicySet([ppo(seed=5)], SINGLE_AGENT, "rounds")
    again.load_state_dict(policies.state_dict())
    assert again.version == 2
    assert again.encode("run") == policies.encode("run")


class Swarm:
    """A learner of two policies: it takes the mean of all rewards for both."""

    policies = ("red", "blue")
    agents: Mapping[str, str] = {"blue_0": "blue", "red_0": "red", "red_1": "red"}
    max_staleness = 3

    def __init__(self) -> None:
        self.mean = 0.0

    def weights(self) -> dict[str, PolicyWeights]:
        return {name: PolicyWeights({}, {"mean": np.float32([self.mean])}) for name in self.policies}

    def begin_round(self, round: int, rounds: int) -> None: ...

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:  # noqa: ARG002
        self.mean = float(np.mean([plain(one)["rewards"].mean() for one in fragments]))
        surrogate: Any = object()
        return {name: UpdateResult({"kl": self.mean}, surrogate) for name in self.policies}

    def take(self, fragments: list[Fragment]) -> None: ...

    def replay(self) -> bool:
        return False

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        return self.update([fragment(0)], round)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean = state["mean"]

    def adopt(self, state: dict[str, Any]) -> None: ...

    def copy_slots(self, sources: Mapping[int, int]) -> None: ...


AGENTS = {"red_0": "red", "red_1": "red", "blue_0": "blue", "scout": "default"}


def test_learners_of_one_and_of_several_policies_make_one_set_with_one_version() -> None:
    policies = PolicySet([Swarm(), ppo()], AGENTS, "rounds")
    assert policies.names == ("red", "blue", "default")
    found = policies.update([fragment(0)], 1)
    assert set(found) == {"red", "blue", "default"}
    assert found["red"].surrogate is found["blue"].surrogate
    assert set(policies.weights()) == set(found)
    assert policies.version == 1
    again = PolicySet([Swarm(), ppo(seed=9)], AGENTS, "rounds")
    again.load_state_dict(policies.state_dict())
    assert again.weights()["blue"].tensors["mean"] == policies.weights()["blue"].tensors["mean"] != 0
    assert again.version == 1


def test_a_state_of_other_policies_is_refused() -> None:
    saved = PolicySet([Swarm()], {"a": "red"}, "rounds").state_dict()
    with pytest.raises(ValueError, match=r"of the policies .*red.*, this job's are .*default"):
        PolicySet([ppo()], SINGLE_AGENT, "rounds").load_state_dict(saved)


def test_an_agent_without_a_policy_and_a_policy_with_two_learners_are_refused() -> None:
    with pytest.raises(ValueError, match=r"nobody learns: \{'a': 'green'\}"):
        PolicySet([Swarm()], {"a": "green"}, "rounds")
    with pytest.raises(ValueError, match="several learners"):
        PolicySet([Swarm(), Swarm()], {"a": "red"}, "rounds")


class Duo:
    """An on-policy learner, which has no method of an off-policy one."""

    policies = ("red", "blue")
    agents: Mapping[str, str] = {"blue_0": "blue", "red_0": "red"}

    def __init__(self, *_: Any) -> None:
        self.rounds = 0

    def weights(self) -> dict[str, PolicyWeights]:
        return {}

    def begin_round(self, round: int, rounds: int) -> None: ...

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:  # noqa: ARG002
        self.rounds += 1
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def adopt(self, state: dict[str, Any]) -> None: ...

    def copy_slots(self, sources: Mapping[int, int]) -> None: ...


def test_a_learner_needs_only_the_methods_of_its_feeding() -> None:
    learner = Duo()
    policies = PolicySet([learner], Duo.agents, "rounds")
    assert policies.names == ("red", "blue")
    policies.update([fragment(0)], 1)
    assert (learner.rounds, policies.version) == (1, 1)
    assert policies.teams() == (), "its agents cannot share policies"
