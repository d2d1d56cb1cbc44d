"""The sharing step: when policies are regrouped, by which distances and bases, with which random numbers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid
from nitro_api.spec.network import Network
from nitro_api.spec.sharing import Sharing as SharingSpec
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.data.batch import Fragment
from nitro_learner.training.compute import Compute
from nitro_learner.training.sharing.similarity import lived_rows
from nitro_learner.training.sharing.toggles import Regrouping, Sharing, agent_returns
from scaler_support import SPEC
from sharing_support import ToyTeam

SIX = (agent_class("agent", 6),)
MIXED = (agent_class("adversary", 1), agent_class("agent", 5))


def entry(one: AgentClass) -> dict[str, Any]:
    return {"agents": list(one.agents), "observation": one.observation, "action": one.action}


class AtOnce(Compute):
    """Computes in the caller's thread."""

    def __init__(self) -> None: ...

    async def measure(self, function: Any, *args: Any, **options: Any) -> Any:
        return function(*args, **options)


class Step:
    """A sharing step with one team of all agents, whose policies' numbers a test may set."""

    def __init__(self, *classes: AgentClass, seed: int = 0, rounds: int = 100, **sharing: Any) -> None:
        network = Network(type="mlp", hidden_sizes=[8], activation="tanh", log_std="state")
        agents = tuple(agent for one in classes for agent in one.agents)
        settings: Any = None
        self.team = ToyTeam(
            Team(agents, classes, None, "toy", settings, network, seed, rounds, SPEC.environment)
        )
        self.policies = PolicySet([self.team], self.team.agents, "rounds")
        self.classes = classes
        spec = SPEC.model_copy(
            update={
                "seed": seed,
                "sharing": SharingSpec(**sharing),
                "stop": SPEC.stop.model_copy(update={"rounds": rounds}),
            }
        )
        environment = DescribedEnvironment.from_json({"classes": {one.name: entry(one) for one in classes}})
        self.sharing = Sharing(spec, environment, self.policies, AtOnce())

    def set(self, numbers: list[float]) -> None:
        self.team.numbers = dict(zip(self.team.policies, numbers, strict=True))

    def regroup(self, *decided: Any, **named: Any) -> Regrouping:
        """Decide, with the arguments of `decide`, and carry it out."""
        self.decide(*decided, **named)
        return self.sharing.regroup()

    def decide(
        self,
        round: int = 10,
        ratios: Mapping[str, float | None] | None = None,
        returns: Mapping[str, float] | None = None,
        fragments: list[Fragment] | None = None,
    ) -> Regrouping:
        fragments = fragments or [agents_fragment(*self.classes, length=60)]
        return asyncio.run(self.sharing.decide(round, "", fragments, returns or {}, ratios or {}))


def test_similar_agents_share_the_policy_with_the_highest_convexity_ratio() -> None:
    step = Step(*SIX, mode="dynamic")
    step.set([0.0, 9.0, 0.1, 9.1, 0.2, 9.2])
    ratios = {f"agent_{i}": value for i, value in enumerate([1.0, None, 5.0, None, 2.0, None])}
    returns = {f"agent_{i}": float(i) for i in range(6)}
    event = step.regroup(ratios=ratios, returns=returns)
    assert event.groups == {
        "agent_2": ("agent_0", "agent_2", "agent_4"),
        "agent_5": ("agent_1", "agent_3", "agent_5"),
    }
    assert event.bases == {"agent_2": "convexity ratio", "agent_5": "return"}
    assert (event.shared, event.fresh) == (True, {"agent_2", "agent_5"})
    assert step.policies.groups() == event.groups
    assert step.policies.version == 1
    assert step.team.numbers == {"agent_2": 0.1, "agent_5": 9.2}
    ((agents, matrix),) = event.distances.items()
    assert agents == SIX[0].agents
    assert matrix[0, 1] == matrix[1, 0] == pytest.approx(81.0)


def test_sharing_ends_with_copies_and_begins_again_with_more_policies() -> None:
    step = Step(*SIX, mode="dynamic")
    step.set([0.0, 9.0, 0.1, 9.1, 20.0, 40.0])
    first = step.regroup()
    assert len(first.groups) == 2
    apart = step.regroup()
    assert apart.groups == {agent: (agent,) for agent in SIX[0].agents}
    assert not apart.shared
    assert apart.fresh == {
        agent for members in first.groups.values() if len(members) > 1 for agent in members
    }
    assert (apart.bases, apart.distances) == ({}, {})
    step.set([0.0, 9.0, 0.1, 9.1, 20.0, 40.0])
    again = step.regroup()
    assert len(again.groups) == 4
    assert again.groups["agent_0"] == ("agent_0", "agent_2")
    assert again.fresh == {"agent_0", "agent_1"}, "an agent that stays alone has no other policy"


def test_only_agents_of_one_class_share() -> None:
    step = Step(*MIXED, mode="dynamic")
    event = step.regroup()
    assert event.groups["adversary_0"] == ("adversary_0",)
    assert "adversary_0" not in event.fresh
    assert list(event.distances) == [MIXED[1].agents]


def test_policies_are_compared_on_512_observations_of_living_agents() -> None:
    step = Step(*SIX, mode="dynamic")
    step.regroup(fragments=[agents_fragment(*SIX, slot=slot, length=60, deaths=0.02) for slot in range(3)])
    assert step.team.asked == [(SIX[0].agents, 512)]
    few = Step(*SIX, mode="dynamic")
    fragment = agents_fragment(*SIX, length=12, deaths=0.1)
    few.regroup(fragments=[fragment])
    assert few.team.asked == [(SIX[0].agents, int(fragment.by_class["agent"]["alive"].sum()))]


def test_masks_go_with_the_observations() -> None:
    step = Step(agent_class("agent", 4, masked=True), mode="dynamic")
    step.regroup()
    assert step.team.asked


def test_the_same_round_and_seed_draw_the_same_groups_and_others_do_not() -> None:
    def groups(seed: int, round: int) -> Mapping[str, tuple[str, ...]]:
        return Step(*SIX, mode="random-toggle", toggles=2, seed=seed).regroup(round).groups

    assert groups(1, 10) == groups(1, 10)
    assert len({str(groups(seed, 10)) for seed in range(8)}) > 4
    assert len({str(groups(1, round)) for round in range(8)}) > 4


def test_random_toggles_compare_no_policies_and_have_as_many_groups() -> None:
    step = Step(*SIX, mode="random-toggle", toggles=3)
    counts = [len(step.regroup().groups) for _ in range(3)]
    assert counts == [2, 6, 4]
    assert step.team.asked == []


def test_a_random_base_goes_on_whatever_its_convexity_ratio() -> None:
    ratios: dict[str, float | None] = {f"agent_{i}": float(i) for i in range(6)}
    found = set()
    for seed in range(8):
        step = Step(*SIX, mode="random-base", seed=seed)
        step.set([0.0, 9.0, 0.1, 9.1, 0.2, 9.2])
        event = step.regroup(ratios=ratios)
        assert sorted(event.groups.values()) == [SIX[0].agents[::2], SIX[0].agents[1::2]], "as with dynamic"
        assert set(event.bases.values()) == {"drawn at random"}
        found.add(tuple(event.groups))
    assert len(found) > 3


def test_kde_groups_agents_by_what_they_saw_and_did() -> None:
    step = Step(*SIX, mode="dynamic", similarity="kde")
    fragment = agents_fragment(*SIX, length=200)
    seen = np.array(fragment.by_class["agent"]["observations"])
    seen[:, :, 3:] += 4.0
    shifted = Fragment(
        fragment.meta, fragment.tensors, {"agent": {**fragment.by_class["agent"], "observations": seen}}
    )
    event = step.regroup(fragments=[shifted])
    assert sorted(event.groups.values()) == [
        ("agent_0", "agent_1", "agent_2"),
        ("agent_3", "agent_4", "agent_5"),
    ]
    assert step.team.asked == []


def test_kde_names_an_agent_that_hardly_acted() -> None:
    step = Step(*SIX, mode="dynamic", similarity="kde")
    fragment = agents_fragment(*SIX, length=60)
    fragment.by_class["agent"]["alive"][:, :, 4] = False
    with pytest.raises(
        JobInvalid, match=r"similarity: \"kde\"; needs more than 3 steps.*agent_4 was alive in 0"
    ):
        step.regroup(fragments=[fragment])


def test_the_rows_of_an_agent_are_its_own_while_it_lived() -> None:
    fragment = agents_fragment(*SIX, deaths=0.1)
    own = fragment.by_class["agent"]
    rows = lived_rows([fragment, fragment], SIX[0], "agent_3")
    alive = own["alive"][:, :, 3]
    expected = own["observations"][:, :, 3][alive]
    assert (rows["observations"] == np.concatenate([expected, expected])).all()
    assert len(rows["actions"]) == 2 * alive.sum() < 2 * alive.size


def test_returns_are_means_over_the_rounds_episodes() -> None:
    fragments = [agents_fragment(*SIX, slot=slot, ends=0.3) for slot in range(2)]
    every = np.concatenate([fragment.tensors["episode_returns"] for fragment in fragments])
    expected = dict(zip(SIX[0].agents, every.mean(axis=0), strict=True))
    assert agent_returns(fragments, SIX[0].agents) == pytest.approx(expected)
    assert agent_returns([agents_fragment(*SIX, ends=0.0)], SIX[0].agents) == {}


def test_a_restored_step_goes_on_exactly() -> None:
    whole, first, second = (Step(*SIX, mode="dynamic", window=3) for _ in range(3))
    found: dict[str, list[Any]] = {"whole": [], "parts": []}
    generator = np.random.default_rng(2)
    for round in range(1, 40):
        returns = {agent: float(generator.normal()) for agent in SIX[0].agents}
        if round == 18:
            second.policies.load_state_dict(first.policies.state_dict())
            second.sharing.load_state_dict(first.sharing.state_dict())
        for name, step in (("whole", whole), ("parts", second if round >= 18 else first)):
            step.policies.update([agents_fragment(*SIX, slot=round)], round)
            if step.sharing.toggles(round, returns):
                event = step.regroup(round, returns=returns)
                found[name].append((round, event.groups, event.bases))
        assert second.sharing.shared == whole.sharing.shared or round < 18
    assert found["parts"] == found["whole"]
    assert len(found["whole"]) > 4


def test_a_toggle_that_is_decided_changes_no_policy_until_it_is_carried_out() -> None:
    step = Step(*SIX, mode="dynamic")
    step.set([0.0, 9.0, 0.1, 9.1, 0.2, 9.2])
    before = step.policies.groups(), step.policies.version, dict(step.team.numbers)
    decided = step.decide()
    assert (step.policies.groups(), step.policies.version, step.team.numbers) == before
    assert (decided.shared, step.sharing.shared) == (True, False)
    assert step.sharing.regroup() is decided
    assert (step.sharing.shared, step.sharing.pending) == (True, None)
    assert (decided.version, list(decided.groups.items())) == (
        step.policies.version,
        list(step.policies.groups().items()),
    )


# Of twelve agents: a checkpoint sorts keys, and agent_10 comes before agent_2 then.
@pytest.mark.parametrize("classes", [(agent_class("agent", 12),), MIXED])
def test_a_decided_toggle_outlives_a_checkpoint(tmp_path: Path, classes: tuple[AgentClass, ...]) -> None:
    first, second = (Step(*classes, mode="dynamic") for _ in range(2))
    for step in (first, second):
        step.set([float(i % 4) for i in range(len(step.team.policies))])
    decided = first.decide()
    store = CheckpointStore(tmp_path, keep_last=1)
    store.save(10, {"sharing": first.sharing.state_dict()})
    saved = store.latest()
    assert saved
    second.sharing.load_state_dict(saved.state["sharing"])
    found = second.sharing.regroup()
    assert second.policies.groups() == found.groups == decided.groups
    for name in ("groups", "bases", "distances"):
        assert list(getattr(found, name)) == list(getattr(decided, name)), name
    assert all((found.distances[pool] == matrix).all() for pool, matrix in decided.distances.items())
    assert (found.fresh, found.sentence, found.number, found.version) == (
        decided.fresh,
        decided.sentence,
        decided.number,
        decided.version,
    )
    apart = second.decide()
    assert (apart.number, apart.shared) == (2, False), "it goes on with what it counts"


def test_agents_of_a_restored_run_keep_the_order_of_the_wire(tmp_path: Path) -> None:
    # A fragment's returns have no names, only this order.
    first, second = (Step(agent_class("agent", 12), mode="dynamic") for _ in range(2))
    store = CheckpointStore(tmp_path, keep_last=1)
    store.save(1, {"policies": first.policies.state_dict()})
    saved = store.latest()
    assert saved
    second.policies.load_state_dict(saved.state["policies"])
    assert list(second.policies.agents) == list(first.policies.agents)
    assert second.policies.encode("run") == first.policies.encode("run")


def test_another_runs_decision_is_not_adopted() -> None:
    first, second = (Step(*SIX, mode="dynamic") for _ in range(2))
    first.decide()
    second.sharing.adopt(first.sharing.state_dict())
    assert (second.sharing.shared, second.sharing.pending) == (False, None)


@pytest.mark.parametrize(
    ("classes", "options", "text"),
    [
        (
            (agent_class("a", 1), agent_class("b", 1)),
            {"mode": "dynamic"},
            r"sharing\.mode: \"dynamic\"; needs two agents",
        ),
        (
            (agent_class("a", 1), agent_class("b", 1)),
            {"mode": "always"},
            r"sharing\.mode: \"always\"; needs two agents",
        ),
        (SIX, {"mode": "random-toggle", "toggles": 10}, "toggles: 10 .*need 101 rounds"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    classes: tuple[AgentClass, ...], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(JobInvalid, match=text):
        Step(*classes, **options)


def test_without_sharing_nothing_ever_toggles() -> None:
    step = Step(agent_class("a", 1), agent_class("b", 1), mode="never")
    assert not any(step.sharing.toggles(k, {"a_0": -float(k), "b_0": -float(k)}) for k in range(60))
