"""Action masks of one agent: their two forms, what a policy does with them, and what a wrong one is told."""

import itertools
from typing import Any

import numpy as np
import pytest

from actor_support import action_of, environment, evaluate, from_one_agent, policies_of, rollout, weights
from masked_environments import SIZES
from memory_support import with_memory
from nitro_actor import masks
from nitro_actor.actions import Continuous, WholeNumbers, action_space
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, FragmentRefused, SlotRequest

KINDS = list(SIZES)
ACTIONS: dict[str, dict[str, Any]] = {
    "Discrete": {"kind": "discrete", "n": 5},
    "MultiDiscrete": {
        "kind": "multiDiscrete",
        "sizes": [3, 2, 4],
        "shape": [3],
        "start": [0, 0, 0],
        "dtype": "int64",
    },
    "MultiBinary": {"kind": "multiBinary", "size": 4, "shape": [4]},
}
Tensors = dict[str, np.ndarray]


def doors(kind: str = "Discrete", form: str = "dict", count: int = 2, **arguments: Any) -> Environment:
    entry, stack = arguments.pop("entry", "Doors"), arguments.pop("frame_stack", 1)
    kwargs = {"kind": kind, "form": form, **arguments} if entry in ("Doors", "Wrapped") else arguments
    return environment("doors", count, f"masked_environments:{entry}", frame_stack=stack, **kwargs)


def play(env: Environment, steps: int, *, memory: bool = False, **arguments: Any) -> Tensors:
    weight = weights(env.spec)
    policy = policies_of(with_memory(weight) if memory else weight, env.spec)
    arguments = {"seed": 7, "state": {}, "optional_tensors": OPTIONAL_TENSORS, **arguments}
    return rollout(env, policy, steps=steps, **arguments)


def some_masks(space: WholeNumbers, rows: int) -> np.ndarray:
    """Masks that leave something, bool [rows, C]."""
    drawn = np.random.default_rng(3).random((20 * rows, masks.choices(space))) < 0.6
    return np.array([mask for mask in drawn if not masks.obstacle(mask, space)][:rows])


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_distribution_has_the_probabilities_that_are_left(kind: str) -> None:
    space = action_space(ACTIONS[kind])
    assert isinstance(space, WholeNumbers)
    sizes = SIZES[kind]
    begins = np.cumsum(sizes) - sizes
    every = np.array(list(itertools.product(*map(range, sizes))))
    for mask in some_masks(space, 8):
        logits = np.random.default_rng(1).normal(size=(1, space.parameters)).astype(np.float32)
        native = every[:, 0] if kind == "Discrete" else every
        before = np.exp(space.log_probabilities(logits, native).astype(float))
        allowed = mask[begins + every].all(axis=-1)
        masks.apply(mask[None], space, logits)
        after = np.exp(space.log_probabilities(np.repeat(logits, len(every), axis=0), native).astype(float))
        np.testing.assert_allclose(after, np.where(allowed, before, 0) / before[allowed].sum(), rtol=1e-5)
        assert masks.allow(np.repeat(mask[None], allowed.sum(), axis=0), space, native[allowed])
        for action in native[~allowed][:5]:
            assert not masks.allow(mask[None], space, action[None])
        # None that is forbidden is ever drawn, and the most probable one is allowed.
        noise = space.noise(np.random.default_rng(2), (300,))
        drawn = np.empty((300, *space.shape), np.int64)
        space.sample(np.repeat(logits, 300, axis=0), noise, drawn)
        assert masks.allow(np.repeat(mask[None], 300, axis=0), space, drawn)
        assert masks.allow(mask[None], space, space.mode(logits))


def test_a_mask_is_one_part_after_the_other_in_any_shape() -> None:
    """As MaskablePPO has it: flattened, and of each bit whether it may be 0 and whether it may be 1."""
    binary = action_space(ACTIONS["MultiBinary"])
    assert masks.choices(binary) == 8
    mask = masks.read([[1, 0], [0, 1], [1, 1], [0, 1]], binary)
    logits = np.zeros((1, 4), np.float32)
    masks.apply(mask[None], binary, logits)
    np.testing.assert_array_equal(logits, [[-1e9, 1e9, 0, 1e9]])
    with pytest.raises(
        ValueError, match=r"has shape \[4\] instead of \[8\]: of each bit whether it may be 0"
    ):
        masks.read(np.ones(4), binary)
    dials = action_space(ACTIONS["MultiDiscrete"])
    with pytest.raises(ValueError, match="the values of each number, one number after another"):
        masks.read((np.ones(3), np.ones(2), np.ones(4)), dials)
    mask = masks.read(np.array([1, 1, 1, 0, 0, 1, 1, 1, 1]), dials)
    assert masks.obstacle(mask, dials) == "forbids every value of number 1; allow at least one"
    assert masks.choices(Continuous(np.zeros(2, np.float32), np.ones(2, np.float32))) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dict", "method"])
def test_no_forbidden_action_is_ever_taken(kind: str, form: str) -> None:
    """The environment raises where one is, in training and in evaluation."""
    env = doors(kind, form)
    spec = env.spec.to_json()
    assert spec["action"]["masked"] is True
    assert spec["observation"]["shape"] == [sum(SIZES[kind])], "the mask is no part of the observation"
    found = play(env, 400)
    space = action_of(env.spec)
    assert isinstance(space, WholeNumbers)
    assert not found["available"].all()
    assert masks.allow(found["available"], space, found["actions"])
    assert len(found["final_available"]) == (found["truncated"] & ~found["terminated"]).sum() > 0
    assert found["last_available"].shape == (2, sum(SIZES[kind]))
    assert found["terminated"].any()
    expected = space.log_probabilities(found["distribution"], found["actions"])
    np.testing.assert_array_equal(found["log_probs"], expected)
    played = evaluate(env, policies_of(weights(env.spec), env.spec), seed=1, episodes=5, max_steps=50)
    assert (played["episode_lengths"] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_both_forms_give_equal_fragments(kind: str) -> None:
    dictionary, method = (play(doors(kind, form), 60) for form in ("dict", "method"))
    assert dictionary.keys() == method.keys()
    for name, array in dictionary.items():
        np.testing.assert_array_equal(array, method[name], err_msg=name)


def test_the_method_may_be_anywhere_below_wrappers_and_the_mask_of_any_shape() -> None:
    plain = play(doors("MultiBinary", "method"), 60)
    for env in (
        doors("MultiBinary", "method", entry="Wrapped", shape=[4, 2]),
        doors("MultiBinary", shape=[4, 2]),
    ):
        again = play(env, 60)
        np.testing.assert_array_equal(plain["actions"], again["actions"])
        np.testing.assert_array_equal(plain["available"], again["available"])


def test_what_stands_beside_the_mask_stays_the_observation() -> None:
    parts = doors(entry="Parts")
    assert parts.spec.to_json()["observation"] == {
        "shape": [8],
        "dtype": "float32",
        "frame": [8],
        "stack": 1,
    }
    found = play(parts, 60)["observations"]
    assert {tuple(row) for row in found[..., :3].reshape(-1, 3)} == {(0.0, 0.0, 1.0)}
    pictures = doors(entry="Pictures")
    assert pictures.spec.to_json()["observation"]["dtype"] == "uint8"
    assert pictures.spec.classes[0].observation["shape"] == [6, 5]


@pytest.mark.parametrize(
    ("kind", "form", "memory", "stack"),
    [
        ("Discrete", "dict", False, 1),
        ("MultiDiscrete", "method", True, 1),
        ("MultiBinary", "dict", True, 3),
        ("Discrete", "method", False, 3),
    ],
)
def test_a_rollout_goes_on_to_the_bit(kind: str, form: str, memory: bool, stack: int) -> None:
    first = play(doors(kind, form, frame_stack=stack), 40, memory=memory)
    state = {name: array.copy() for name, array in bare(first).items()}
    used = doors(kind, form, frame_stack=stack)
    play(used, 30, memory=memory, seed=99)
    ones = [
        play(env, 40, memory=memory, seed=8, state=state)
        for env in (used, doors(kind, form, frame_stack=stack))
    ]
    np.testing.assert_array_equal(ones[0]["available"][0], first["last_available"])
    assert ones[0].keys() == ones[1].keys()
    for name, array in ones[0].items():
        np.testing.assert_array_equal(array, ones[1][name], err_msg=name)


def message(env: Environment, tensors: Tensors, steps: int) -> tuple[bytes, Expectation]:
    common: dict[str, Any] = {"run": "r", "round": 1, "weights_version": 0}
    sent = FragmentContainer(
        "rollout",
        slot=0,
        attempt=0,
        seed=7,
        steps=steps,
        envs=2,
        resumed=False,
        tensors=from_one_agent(tensors),
        **common,
    )
    expect = Expectation(
        "rollout",
        environment=DescribedEnvironment.from_json(env.spec.to_json()),
        steps=steps,
        envs=2,
        optional_tensors=frozenset(OPTIONAL_TENSORS),
        slots={0: SlotRequest(7)},
        **common,
    )
    return sent.encode(), expect


@pytest.mark.parametrize("kind", KINDS)
def test_a_fragment_carries_its_masks_and_must_keep_to_them(kind: str) -> None:
    env = doors(kind)
    tensors = play(env, 80)
    data, expect = message(env, tensors, 80)
    read = fragments.read(data, expect)
    np.testing.assert_array_equal(read.by_class["agent"]["available"][:, :, 0], tensors["available"])
    space = action_of(env.spec)
    where = np.argwhere(~tensors["available"][:, :, -1])[0]  # the last choice of the last number
    forged = tensors["actions"].copy()
    forged[tuple(where)] = space.counts - 1  # type: ignore[attr-defined]
    with pytest.raises(FragmentRefused, match="agent/actions: an action that agent/available does not allow"):
        fragments.read(message(env, tensors | {"actions": forged}, 80)[0], expect)
    without = {name: array for name, array in tensors.items() if name != "available"}
    with pytest.raises(FragmentRefused, match="available"):
        fragments.read(message(env, without, 80)[0], expect)
    fewer = {"final_available": tensors["final_available"][1:]}
    with pytest.raises(FragmentRefused, match="agent/final_available: "):
        fragments.read(message(env, tensors | fewer, 80)[0], expect)


def test_an_environment_without_masks_has_the_fragments_of_before() -> None:
    env = environment("CartPole-v1", 2)
    assert env.spec.to_json()["action"] == {"kind": "discrete", "n": 2}
    assert sorted(play(env, 20)) == [
        *("actions", "distribution", "episode_lengths", "episode_returns", "final_observations"),
        *("last_observations", "log_probs", "observations", "rewards"),
        *("state/generators", "state/lengths", "state/observations", "state/own/single"),
        *("state/own/state", "state/own/steps_beyond_terminated", "state/returns"),
        *("terminated", "truncated"),
    ]


@pytest.mark.parametrize(
    ("kind", "how", "text"),
    [
        ("Discrete", "nothing", "the action_mask forbids every action; allow at least one, such as to do"),
        ("MultiBinary", "nothing", "the action_mask forbids every value of bit 0; allow at least one"),
        ("MultiBinary", "last", "the action_mask forbids every value of bit 3; allow at least one"),
        (
            "MultiDiscrete",
            "short",
            r"the action_mask has shape \[8\] instead of \[9\]: the values of each number",
        ),
        ("Discrete", "none", "the action_mask is None, not 5 bools"),
        ("Discrete", "ragged", "the action_mask is .*, not 5 bools"),
    ],
)
def test_a_wrong_mask_is_told_before_the_first_round(kind: str, how: str, text: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=f"environment 0: {text}"):
        environment("wrong", 1, "masked_environments:wrong", kind=kind, how=how)


def test_a_mask_that_forbids_everything_later_ends_the_rollout() -> None:
    env = environment("wrong", 1, "masked_environments:wrong", kind="Discrete", how="later")
    with pytest.raises(EnvironmentCallError, match="environment 0: the action_mask forbids every action"):
        play(env, 200)


@pytest.mark.parametrize("form", ["dict", "method"])
def test_real_numbers_cannot_be_masked(form: str) -> None:
    with pytest.raises(EnvironmentConfigError, match="which only Discrete, MultiDiscrete and MultiBinary"):
        doors(entry="Steering", form=form)
