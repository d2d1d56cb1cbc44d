"""Rollouts of several agents: who acted, died and came back, what was seen, and how they go on."""

from typing import Any

import numpy as np
import pytest

from actor_support import Game
from nitro_actor import wire
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, SlotRequest
from parallel_environments import arena, container, several

Tensors = dict[str, np.ndarray]


def play(environment: Environment, steps: int, *, seed: int = 7, **arguments: Any) -> Tensors:
    """A rollout of separate policies."""
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    arguments = {"state": {}, "optional_tensors": OPTIONAL_TENSORS, **arguments}
    found = game.rollout(policies, seed=seed, steps=steps, **arguments)
    for name, array in found.items():
        assert array.dtype.kind != "f" or name.startswith("state/own/") or np.isfinite(array).all(), name
    return found


def same(one: Tensors, other: Tensors) -> None:
    assert set(one) == set(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_agents_die_come_back_and_end_with_the_episode() -> None:
    found = play(arena(1), 8)
    np.testing.assert_array_equal(
        found["hunter/alive"][:, 0],
        [[1, 1], [1, 1], [1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1]],
    )
    np.testing.assert_array_equal(
        found["hunter/died"][:, 0],
        [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0], [1, 1], [0, 0], [0, 1]],
    )
    assert found["runner/alive"].all()
    np.testing.assert_array_equal(found["runner/died"][:, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(found["terminated"][:, 0], [0, 0, 0, 0, 0, 1, 0, 0])
    assert not found["truncated"].any()
    # The environment's first number is its clock, its second the agent.
    clock = [0, 1, 2, 3, 4, 5, 0, 1]
    np.testing.assert_array_equal(found["hunter/observations"][:, 0, 0, 0], clock)
    np.testing.assert_array_equal(found["hunter/observations"][:, 0, 1, 0], [0, 1, 0, 0, 4, 5, 0, 1])
    np.testing.assert_array_equal(found["runner/observations"][:, 0, 0, 0, 0], clock)
    np.testing.assert_array_equal(found["global_state"][:, 0, 0], clock)
    assert not found["hunter/last_observations"][0, 1].any()  # dead since the last step


def test_rewards_and_returns_are_those_of_the_actions() -> None:
    found = play(arena(2), 40)
    alive, acted = found["hunter/alive"], found["hunter/actions"] + 1
    np.testing.assert_array_equal(found["hunter/rewards"], np.where(alive, np.array([1, 2]) + acted, 0))
    pushed = np.clip(found["runner/actions"], -1, 1).astype(np.float64).sum(axis=-1)
    np.testing.assert_allclose(found["runner/rewards"], 3 + pushed, rtol=1e-6)
    ends = np.argwhere(found["terminated"])
    assert found["episode_lengths"].tolist() == [6] * len(ends)
    for row, (t, e) in zip(found["episode_returns"], ends, strict=True):
        episode = slice(t - 5, t + 1)
        hunters = found["hunter/rewards"][episode, e].sum(axis=0, dtype=np.float64)
        runner = found["runner/rewards"][episode, e].sum(axis=0, dtype=np.float64)
        np.testing.assert_allclose(row, [*hunters, *runner], rtol=1e-6)


def test_a_truncated_step_shows_what_it_led_to() -> None:
    found = play(arena(2, cut=3), 14)
    assert not found["terminated"].any()
    cut = np.argwhere(found["truncated"])
    np.testing.assert_array_equal(cut, [[2, 0], [2, 1], [5, 0], [5, 1]])
    finals = found["hunter/final_observations"]
    np.testing.assert_array_equal(finals[:, 0, 0], [3] * 4)
    assert not finals[:, 1].any()  # hunter_1 was dead
    np.testing.assert_array_equal(finals[:, 0, 2], found["hunter/actions"][2::3, :, 0].reshape(-1)[:4] + 1)
    np.testing.assert_array_equal(found["runner/final_observations"][:, 0, 0, 0], [3] * 4)
    np.testing.assert_array_equal(found["final_global_state"][:, 0], [3] * 4)
    masks = found["hunter/final_available"]
    np.testing.assert_array_equal(masks, np.broadcast_to([[1, 0, 0, 1], [1, 1, 1, 1]], masks.shape))


def test_actions_are_available_ones_and_the_dead_have_all() -> None:
    found = play(arena(3), 300)
    available, clock = found["hunter/available"], found["hunter/observations"][..., 0].astype(int)
    expected = np.zeros_like(available)
    expected[..., 0] = True
    np.put_along_axis(expected, (clock % 4)[..., None], True, axis=-1)
    expected[~found["hunter/alive"]] = True
    np.testing.assert_array_equal(available, expected)
    assert np.take_along_axis(available, found["hunter/actions"][..., None], -1).all()
    assert (found["hunter/distribution"][~available] == -1e9).all()


def test_an_agent_that_joins_later_has_the_mask_that_others_of_its_spaces_have() -> None:
    """a_1 is not there at the reset. Whoever acts may take action 1 only."""
    found = play(several("pair", 1, "parallel_environments:Pair", how="joins"), 10)
    alive = found["a/alive"][:, 0]
    np.testing.assert_array_equal(alive, [[1, 0]] * 3 + [[1, 1]] * 2 + [[1, 0]] * 3 + [[1, 1]] * 2)
    np.testing.assert_array_equal(found["a/available"][:, 0, :, 0], ~alive)
    assert (found["a/actions"][:, 0][alive] == 1).all()


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("cut", [0, 5])
def test_the_learner_accepts_what_an_actor_samples(stack: int, cut: int) -> None:
    environment = arena(2, frame_stack=stack, cut=cut)
    tensors = play(environment, 60)
    data = FragmentContainer(
        "rollout",
        "run-1",
        3,
        1,
        0,
        weights_version=3,
        seed=7,
        steps=60,
        envs=2,
        resumed=False,
        tensors=tensors,
    ).encode()
    expect = Expectation(
        "rollout",
        "run-1",
        3,
        3,
        DescribedEnvironment.from_json(environment.spec.to_json()),
        steps=60,
        envs=2,
        optional_tensors=frozenset(OPTIONAL_TENSORS),
        slots={1: SlotRequest(7)},
    )
    read = fragments.read(data, expect)
    assert read.by_class["hunter"]["observations"].shape == (30, 2, 2, 4 * stack)
    assert read.by_class["runner"]["observations"].shape == (
        (30, 2, 1, 2, 2, 3) if stack > 1 else (30, 2, 1, 2, 2)
    )
    assert read.tensors["global_state"].shape == (30, 2, 4)


def test_policies_see_stacks_of_frames() -> None:
    """The learner makes the stacks again from single frames: they must be those that the policies saw."""
    environment = arena(2, frame_stack=3)
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    found = play(environment, 60)
    read = fragments.restack(
        {n.partition("/")[2]: a for n, a in found.items() if n.startswith("hunter/")},
        found["terminated"],
        found["truncated"],
    )
    for t in (0, 1, 7, 29):
        distribution = np.empty((2, 2, 4), np.float32)
        policies.classes["hunter"].distribution(
            read["observations"][t], found["hunter/available"][t], distribution
        )
        np.testing.assert_array_equal(distribution, found["hunter/distribution"][t])


def test_equal_requests_give_equal_tensors_and_other_seeds_others() -> None:
    environment = arena(2)
    first = play(environment, 40)
    play(environment, 10, seed=9)
    same(first, play(environment, 40))
    assert (first["hunter/observations"] != play(environment, 40, seed=8)["hunter/observations"]).any()


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("first", [2, 3, 4, 6, 9])
def test_a_restored_environment_goes_on_to_the_bit(first: int, stack: int) -> None:
    one, other = arena(2, frame_stack=stack), arena(2, frame_stack=stack)
    one.reset([1, 2])
    other.reset([3, 4])
    advance(one, 0, first)
    other.restore({name: array.copy() for name, array in one.snapshot().items()})
    for name in ("hunter", "runner"):
        np.testing.assert_array_equal(other.observations[name], one.observations[name])
        np.testing.assert_array_equal(other.alive[name], one.alive[name])
    np.testing.assert_array_equal(other.available["hunter"], one.available["hunter"])
    np.testing.assert_array_equal(other.state(), one.state())
    for environment in (one, other):
        advance(environment, first, 20)
    same(other.snapshot(), one.snapshot())


def advance(environment: Environment, begin: int, end: int) -> None:
    """Steps with actions that depend on the step alone."""
    for t in range(begin, end):
        hunters = np.zeros((2, 2), np.int64)
        runner = np.random.default_rng(t).normal(size=(2, 1, 2)).astype(np.float32)
        step = environment.step({"hunter": hunters, "runner": runner})
        for index in np.flatnonzero(step.terminated | step.truncated):
            environment.reset_one(int(index))


def test_a_rollout_goes_on_where_the_last_one_ended() -> None:
    head = play(arena(2), 16)
    tail = play(arena(2), 16, seed=8, state=bare(head))
    np.testing.assert_array_equal(tail["hunter/observations"][0], head["hunter/last_observations"])
    np.testing.assert_array_equal(tail["hunter/available"][0], head["hunter/last_available"])
    np.testing.assert_array_equal(tail["global_state"][0], head["last_global_state"])
    np.testing.assert_array_equal(tail["terminated"][:, 0], [0, 0, 0, 1, 0, 0, 0, 0])  # the sixth step
    assert tail["episode_lengths"].tolist() == [6] * 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("agents", lambda array: array[:1]),
        ("observations/hunter", lambda array: array.astype(np.float64)),
        ("generators", lambda array: array[:, :3]),
        ("returns", lambda array: array[:, :1]),
        ("own/clock", lambda array: array[:1]),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name: str, change: Any) -> None:
    environment = arena(2)
    state = bare(play(environment, 10))
    with pytest.raises(wire.WireError):
        play(environment, 10, state=state | {name: change(state[name])})


def test_an_evaluation_has_a_return_for_each_agent_and_is_cut() -> None:
    environment = arena(2)
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    found = game.evaluate(policies, seed=5, episodes=5, max_steps=100)
    assert found["episode_returns"].shape == (5, 3)
    assert found["episode_lengths"].tolist() == [6] * 5
    again = game.evaluate(policies, seed=5, episodes=5, max_steps=100)
    np.testing.assert_array_equal(found["episode_returns"], again["episode_returns"])
    assert game.evaluate(policies, seed=5, episodes=3, max_steps=4)["episode_lengths"].tolist() == [4] * 3


def test_tuples_of_spaces_are_agents_and_a_time_limit_cuts() -> None:
    environment = several(count=2, entry_point="tuple_environments:limited_crew")
    assert environment.spec.agents == ("agent_0", "agent_1")
    assert (environment.spec.time_limit, environment.spec.resumable) == (3, True)
    found = play(environment, 16)
    np.testing.assert_array_equal(found["truncated"][:, 0], [0, 0, 1, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(found["agent/rewards"], found["agent/actions"])
    np.testing.assert_array_equal(found["agent/final_observations"][:, :, 0], np.full((4, 2), 3))
    for crew in ("Crew", "CrewOfLists"):
        ended = play(several(count=1, entry_point=f"tuple_environments:{crew}"), 9)
        np.testing.assert_array_equal(ended["terminated"][:, 0], [0, 0, 0, 1, 0, 0, 0, 1, 0])
        np.testing.assert_array_equal(ended["agent/died"][:, 0, 0], ended["terminated"][:, 0])


@pytest.mark.parametrize(
    ("id_", "kwargs", "classes"),
    [
        ("mpe2/simple_speaker_listener_v4", {}, {"listener": ["listener_0"], "speaker": ["speaker_0"]}),
        ("mpe2/simple_spread_v3", {"N": 2}, {"agent": ["agent_0", "agent_1"]}),
        ("mpe2/simple_spread_v3", {"N": 2, "continuous_actions": True}, {"agent": ["agent_0", "agent_1"]}),
        ("lbforaging:Foraging-8x8-2p-2f-v3", {}, {"agent": ["agent_0", "agent_1"]}),
        ("rware:rware-tiny-2ag-v2", {}, {"agent": ["agent_0", "agent_1"]}),
    ],
)
def test_known_environments_play(id_: str, kwargs: dict[str, Any], classes: dict[str, list[str]]) -> None:
    environment = several(id_, 2, **kwargs)
    spec = environment.spec.to_json()
    assert {name: one["agents"] for name, one in spec["classes"].items()} == classes
    assert "state" not in spec  # mpe2's is the concatenation of the observations, the others have none
    first = play(environment, 120)
    same(first, play(environment, 120))
    environment.close()


def test_signs_of_rewards_are_sent_and_returns_are_whole() -> None:
    environment = arena(1)
    environment.clip_rewards = True
    found = play(environment, 12)
    assert set(np.unique(found["hunter/rewards"])) == {0.0, 1.0}
    assert (found["episode_returns"] > 6).all()
