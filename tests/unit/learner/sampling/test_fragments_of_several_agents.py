"""Fragments of several agents: what is sent is what the learner reads, by class; the rest is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nitro_actor import PROTOCOL_VERSION
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import (
    AGENT_AXIS,
    FragmentContainer,
    tensor_specs,
)
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_learner.data.batch import Fragment
from nitro_learner.data.stacks import restack
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, FragmentRefused, SlotRequest

Tensors = dict[str, np.ndarray]
Change = Callable[[Tensors], object]
LENGTH, ENVS = 5, 2

TAG: dict[str, Any] = {
    "protocol": PROTOCOL_VERSION,
    "id": "mpe2/simple_tag_v3",
    "resumable": False,
    "state": {"size": 6},
    "classes": {
        "adversary": {
            "agents": ["adversary_0", "adversary_1", "adversary_2"],
            "observation": {"shape": [16], "dtype": "float32", "frame": [16], "stack": 1},
            "action": {"kind": "discrete", "n": 5, "masked": True},
        },
        "agent": {
            "agents": ["agent_0"],
            "observation": {"shape": [4, 4, 3], "dtype": "uint8", "frame": [4, 4], "stack": 3},
            "action": {"kind": "continuous", "size": 2, "low": [-1, -1], "high": [1, 1]},
        },
    },
}
"""Two classes, of which one masks actions and the other sees stacks of frames."""


ONE: dict[str, Any] = {name: TAG["classes"]["agent"][name] for name in ("observation", "action")}
MASKED: dict[str, Any] = {name: TAG["classes"]["adversary"][name] for name in ("observation", "action")}


def tensors_of(
    environment: dict[str, Any], terminated: np.ndarray, truncated: np.ndarray, seed: int = 0
) -> Tensors:
    """Random tensors of a rollout that ended where it is said. Agents die and come back."""
    rng = np.random.default_rng(seed)
    length, envs = terminated.shape
    cut, episodes = int((truncated & ~terminated).sum()), int((truncated | terminated).sum())
    made: Tensors = {"terminated": terminated, "truncated": truncated}
    for name, spec in tensor_specs(
        DescribedEnvironment.from_json(environment), length * envs, envs, OPTIONAL_TENSORS
    ).items():
        rows = cut if "final_" in name else episodes
        shape = tuple(rows if n is None else n for n in spec.shape)
        low, high = (1, 5) if spec.dtype != "bool" else (0, 2)
        made.setdefault(name, rng.integers(low, high, shape).astype(spec.dtype))
    for name in environment.get("classes", {}):
        live(made, name, rng)
    return made


def live(tensors: Tensors, name: str, rng: np.random.Generator) -> None:
    """Make a class's random tensors such as a game with deaths gives."""
    alive, died = tensors[f"{name}/alive"], tensors[f"{name}/died"]
    terminated, ended = tensors["terminated"], tensors["terminated"] | tensors["truncated"]
    for t in range(len(alive)):
        died[t] = alive[t] & (rng.random(alive[t].shape) < 0.3)
        died[t, terminated[t]] = alive[t, terminated[t]]
        if t + 1 < len(alive):
            alive[t + 1] |= alive[t] & ~died[t] & ~ended[t][:, None]
    for field in ("rewards", "observations"):
        tensors[f"{name}/{field}"][~alive] = 0
    if f"{name}/available" in tensors:
        np.put_along_axis(tensors[f"{name}/available"], tensors[f"{name}/actions"][..., None], True, axis=-1)


def ends() -> tuple[np.ndarray, np.ndarray]:
    terminated, truncated = np.zeros((2, LENGTH, ENVS), bool)
    terminated[1, 0] = truncated[2, 1] = truncated[3, 0] = True
    return terminated, truncated


def sent(tensors: Tensors, **changes: Any) -> bytes:
    values: dict[str, Any] = {"kind": "rollout", "run": "run-1", "round": 3, "slot": 1, "attempt": 0}
    values |= {"weights_version": 3, "seed": 77, "steps": LENGTH * ENVS, "envs": ENVS, "resumed": False}
    return FragmentContainer(**(values | changes), tensors=tensors).encode()


def read(data: bytes, environment: dict[str, Any] = TAG, length: int = LENGTH, envs: int = ENVS) -> Fragment:
    expect = Expectation(
        "rollout",
        "run-1",
        3,
        3,
        DescribedEnvironment.from_json(environment),
        steps=length * envs,
        envs=envs,
        optional_tensors=frozenset(OPTIONAL_TENSORS),
        slots={1: SlotRequest(77)},
    )
    return fragments.read(data, expect)


def test_shapes_of_two_classes() -> None:
    specs = tensor_specs(DescribedEnvironment.from_json(TAG), LENGTH * ENVS, ENVS, OPTIONAL_TENSORS)
    shapes = {name: (spec.dtype, spec.shape) for name, spec in specs.items()}
    assert shapes == {
        "adversary/observations": ("float32", (5, 2, 3, 16)),
        "adversary/last_observations": ("float32", (2, 3, 16)),
        "adversary/final_observations": ("float32", (None, 3, 16)),
        "adversary/actions": ("int64", (5, 2, 3)),
        "adversary/distribution": ("float32", (5, 2, 3, 5)),
        "adversary/log_probs": ("float32", (5, 2, 3)),
        "adversary/rewards": ("float32", (5, 2, 3)),
        "adversary/alive": ("bool", (5, 2, 3)),
        "adversary/died": ("bool", (5, 2, 3)),
        "adversary/available": ("bool", (5, 2, 3, 5)),
        "adversary/last_available": ("bool", (2, 3, 5)),
        "adversary/final_available": ("bool", (None, 3, 5)),
        "agent/observations": ("uint8", (5, 2, 1, 4, 4)),
        "agent/last_observations": ("uint8", (2, 1, 4, 4)),
        "agent/final_observations": ("uint8", (None, 1, 4, 4)),
        "agent/earlier_observations": ("uint8", (2, 1, 2, 4, 4)),
        "agent/actions": ("float32", (5, 2, 1, 2)),
        "agent/distribution": ("float32", (5, 2, 1, 4)),
        "agent/log_probs": ("float32", (5, 2, 1)),
        "agent/rewards": ("float32", (5, 2, 1)),
        "agent/alive": ("bool", (5, 2, 1)),
        "agent/died": ("bool", (5, 2, 1)),
        "global_state": ("float32", (5, 2, 6)),
        "last_global_state": ("float32", (2, 6)),
        "final_global_state": ("float32", (None, 6)),
        "terminated": ("bool", (5, 2)),
        "truncated": ("bool", (5, 2)),
        "episode_returns": ("float64", (None, 4)),
        "episode_lengths": ("int64", (None,)),
    }


def test_the_learner_reads_tensors_by_class() -> None:
    tensors = tensors_of(TAG, *ends())
    fragment = read(sent(tensors))
    once = {"terminated", "truncated", "episode_returns", "episode_lengths"}
    assert set(fragment.tensors) == once | {"global_state", "last_global_state", "final_global_state"}
    assert set(fragment.by_class) == {"adversary", "agent"}
    for name, array in tensors.items():
        group, _, field = name.rpartition("/")
        if group == "agent" and "observations" in field:
            continue  # stacked, see below
        found = fragment.by_class[group][field] if group else fragment.tensors[field]
        np.testing.assert_array_equal(found, array, err_msg=name)
    images = fragment.by_class["agent"]
    assert images["observations"].shape == (5, 2, 1, 4, 4, 3)
    np.testing.assert_array_equal(images["observations"][..., -1], tensors["agent/observations"])
    assert images["last_observations"].shape == (2, 1, 4, 4, 3)
    assert images["final_observations"].shape == (2, 1, 4, 4, 3)
    assert "earlier_observations" not in images


spaces = st.fixed_dictionaries(
    {
        "observation": st.builds(
            lambda frame, dtype, stack: {"frame": frame, "dtype": dtype, "stack": stack},
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.sampled_from(("float32", "uint8")),
            st.integers(1, 3),
        ),
        "action": st.one_of(
            st.builds(
                lambda size: {"kind": "continuous", "size": size, "low": [-1] * size, "high": [1] * size},
                st.integers(1, 3),
            ),
            st.builds(
                lambda n, masked: {"kind": "discrete", "n": n, "masked": masked},
                st.integers(5, 7),
                st.booleans(),
            ),
        ),
    }
)
environments = st.lists(st.tuples(st.integers(1, 4), spaces), min_size=1, max_size=3).map(
    lambda found: {
        "resumable": False,
        "classes": {
            f"class{c}": {"agents": [f"agent{c}_{i}" for i in range(count)], **one}
            for c, (count, one) in enumerate(found)
        },
    }
)


@settings(max_examples=150, deadline=None)
@given(environments, st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32))
def test_any_classes_come_back_as_they_were_sent(
    environment: dict[str, Any], length: int, envs: int, seed: int
) -> None:
    terminated, truncated = np.random.default_rng(seed).random((2, length, envs)) < 0.3
    tensors = tensors_of(environment, terminated, truncated, seed)
    fragment = read(sent(tensors, steps=length * envs, envs=envs), environment, length, envs)
    for one in agent_classes(environment):
        own = {n.partition("/")[2]: a for n, a in tensors.items() if n.startswith(f"{one.name}/")}
        found = fragment.by_class[one.name]
        assert set(found) == set(own) - {"earlier_observations"}
        for i in range(len(one.agents)):  # each agent is what it would be alone
            alone = {name: array.take(i, axis=AGENT_AXIS[name]) for name, array in own.items()}
            fields = {name: np.expand_dims(array, AGENT_AXIS[name]) for name, array in alone.items()}
            whole = restack(fields, terminated, truncated)
            for name in found:
                taken = found[name].take([i], axis=AGENT_AXIS[name])
                np.testing.assert_array_equal(taken, whole[name], err_msg=name)


def test_the_axis_of_each_field_is_the_agents() -> None:
    classes = {"one": {"agents": list("abcdefg"), **ONE}, "two": {"agents": list("hijklmn"), **MASKED}}
    specs = tensor_specs(
        DescribedEnvironment.from_json({"classes": classes}), LENGTH * ENVS, ENVS, OPTIONAL_TENSORS, memory=9
    )
    axes = {name.partition("/")[2]: spec.shape.index(7) for name, spec in specs.items() if "/" in name}
    assert axes == AGENT_AXIS


def test_a_class_without_stacks_is_read_unchanged() -> None:
    fields = {"observations": np.zeros((2, 1, 3, 4), np.float32)}
    assert restack(fields, np.zeros((2, 1), bool), np.zeros((2, 1), bool)) == fields


def test_the_global_state_is_there_where_it_is_asked_for_and_the_environment_has_one() -> None:
    without = {name: value for name, value in TAG.items() if name != "state"}
    for environment, wanted in ((TAG, ("log_probs",)), (without, OPTIONAL_TENSORS)):
        specs = tensor_specs(DescribedEnvironment.from_json(environment), LENGTH * ENVS, ENVS, wanted)
        assert not [name for name in specs if "global_state" in name]


def tensor(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda tensors: tensors.update({name: value(tensors[name])})


def missing(name: str) -> Change:
    return lambda tensors: tensors.pop(name)


def nan(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.nan)


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        (missing("adversary/observations"), "wrong_shape", "tensor adversary/observations: missing"),
        (missing("adversary/alive"), "wrong_shape", "tensor adversary/alive: missing"),
        (missing("adversary/died"), "wrong_shape", "tensor adversary/died: missing"),
        (missing("last_global_state"), "wrong_shape", "tensor last_global_state: missing"),
        (tensor("global_state", nan), "not_finite", "global_state: holds NaN"),
        (
            tensor("final_global_state", lambda a: a[:1]),
            "inconsistent",
            "final_global_state: 1 rows for 2 truncated steps",
        ),
        (missing("adversary/final_available"), "wrong_shape", "adversary/final_available: missing"),
        (missing("agent/earlier_observations"), "wrong_shape", "agent/earlier_observations: missing"),
        (missing("terminated"), "wrong_shape", "tensor terminated: missing"),
        (
            tensor("adversary/rewards", lambda a: a[:, :, :2]),
            "wrong_shape",
            r"adversary/rewards: shape \[5, 2, 2\] instead of \[5, 2, 3\]",
        ),
        (
            tensor("agent/rewards", lambda a: np.repeat(a, 3, axis=2)),
            "wrong_shape",
            r"agent/rewards: shape \[5, 2, 3\] instead of \[5, 2, 1\]",
        ),
        (
            tensor("episode_returns", lambda a: a[:, :3]),
            "wrong_shape",
            r"episode_returns: shape \[3, 3\] instead of \[any, 4\]",
        ),
        (tensor("adversary/alive", lambda a: a.astype(np.uint8)), "wrong_shape", "adversary/alive: dtype"),
        (
            lambda t: t.update({"agent/available": t["agent/alive"]}),
            "wrong_shape",
            "agent/available: not exp",
        ),
        (lambda t: t.update({"third/rewards": t["agent/rewards"]}), "wrong_shape", "third/rewards: not exp"),
        (lambda t: t.update({"rewards": t["agent/rewards"]}), "wrong_shape", "tensor rewards: not expected"),
        (tensor("adversary/rewards", nan), "not_finite", "adversary/rewards: holds NaN"),
        (tensor("adversary/actions", lambda a: a + 4), "inconsistent", r"adversary/actions: an action outs"),
        (
            tensor("agent/final_observations", lambda a: a[:1]),
            "inconsistent",
            "agent/final_observations: 1 rows for 2 truncated steps",
        ),
        (
            tensor("adversary/final_available", lambda a: a[:1]),
            "inconsistent",
            "adversary/final_available: 1 rows for 2 truncated steps",
        ),
        (lambda t: t.update({"state/x": np.zeros(1)}), "inconsistent", "1 end state tensors"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_and_named(change: Change, reason: str, text: str) -> None:
    tensors = tensors_of(TAG, *ends())
    change(tensors)
    with pytest.raises(FragmentRefused, match=text) as caught:
        read(sent(tensors))
    assert (caught.value.reason, caught.value.task) == (reason, 1)


def placed(name: str, *places: tuple[tuple[int, int, int], float]) -> Change:
    """Changes single values of a tensor."""

    def change(tensors: Tensors) -> None:
        for place, value in places:
            tensors[name][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (placed("agent/died", ((4, 0, 0), True)), "agent/died: an agent that was not alive"),
        (
            placed("agent/died", ((1, 0, 0), False)),
            "agent/died: the episode terminated, but an agent goes on",
        ),
        (placed("agent/alive", ((2, 1, 0), False)), "agent/alive: an agent left without agent/died"),
        (placed("agent/rewards", ((4, 0, 0), 0.5)), "agent/rewards: not 0 for an agent that is not alive"),
        (placed("agent/observations", ((4, 0, 0), 1)), "agent/observations: not 0 for an agent that is not"),
        (
            lambda tensors: tensors["adversary/available"].fill(False),
            "adversary/actions: an action that adversary/available does not allow",
        ),
    ],
)
def test_lives_that_contradict_themselves_are_refused(change: Change, text: str) -> None:
    tensors = tensors_of(TAG, *ends())
    for name, lives in (("alive", True), ("died", False)):
        tensors[f"agent/{name}"][:] = lives
    tensors["agent/died"][1, 0] = True
    for field, value in (("alive", False), ("rewards", 0), ("observations", 0)):
        tensors[f"agent/{field}"][4, 0] = value  # the episode before it was cut
    read(sent(tensors))
    change(tensors)
    with pytest.raises(FragmentRefused, match=text) as caught:
        read(sent(tensors))
    assert caught.value.reason == "inconsistent"


def test_an_evaluation_has_a_return_for_each_agent() -> None:
    expect = Expectation(
        "evaluate", "run-1", 3, 3, DescribedEnvironment.from_json(TAG), slots={1: SlotRequest(77, episodes=2)}
    )
    tensors = {"episode_returns": np.arange(8.0).reshape(2, 4), "episode_lengths": np.array([3, 4])}
    fragment = fragments.read(sent(tensors, kind="evaluate", steps=7), expect)
    np.testing.assert_array_equal(fragment.tensors["episode_returns"], tensors["episode_returns"])
    assert fragment.by_class == {}
    with pytest.raises(FragmentRefused, match=r"shape \[2, 1\] instead of \[2, 4\]"):
        fragments.read(
            sent(tensors | {"episode_returns": np.zeros((2, 1))}, kind="evaluate", steps=7), expect
        )


def test_one_agent_is_read_as_a_class_of_one() -> None:
    tensors = tensors_of(ONE, *ends()) | {"state/qpos": np.zeros((2, 5))}
    fragment = read(sent(tensors), ONE | {"resumable": True})
    assert set(fragment.tensors) == {name for name in tensors if not name.startswith("agent/")}
    (fields,) = fragment.by_class.values()
    assert list(fragment.by_class) == ["agent"]
    assert set(fields) == {n.partition("/")[2] for n in tensors if n.startswith("agent/")} - {
        "earlier_observations"
    }
    assert fields["observations"].shape == (5, 2, 1, 4, 4, 3)
    assert fields["final_observations"].shape == (2, 1, 4, 4, 3)
    np.testing.assert_array_equal(fields["rewards"], tensors["agent/rewards"])
