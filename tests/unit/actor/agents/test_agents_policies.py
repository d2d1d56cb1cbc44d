"""Policies of several agents: each agent does what its own policy says, however many share a product."""

import copy
import math
from typing import Any

import numpy as np
import pytest

from nitro_actor import wire
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.policy import ClassPolicies, Noise, Policies, check
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from parallel_environments import arena, container, mlp

COUNT, LENGTH = 3, 4000
SEED = np.random.SeedSequence(5)


def four(kind: str = "discrete", *, masked: bool = False) -> AgentClass:
    """A class of four agents that see five numbers."""
    action: dict[str, Any] = {"kind": "discrete", "n": 3, "masked": masked}
    if kind == "continuous":
        action = {"kind": "continuous", "size": 2, "low": [-1.0] * 2, "high": [None] * 2}
    observation = {"shape": [5], "dtype": "float32", "frame": [5], "stack": 1}
    return AgentClass("a", tuple(f"a_{i}" for i in range(4)), observation, action, mortal=True)


def policies_of(
    one: AgentClass, groups: dict[str, list[str]], **network: Any
) -> tuple[ClassPolicies, WeightsContainer]:
    spec = EnvironmentSpec("test", (one,), None, resumable=False)
    weights = container(spec, groups, **network)
    return Policies(weights, spec.classes).classes["a"], weights


def sample(
    made: ClassPolicies,
    distribution: np.ndarray,
    noise: Noise,
    t: int,
    available: np.ndarray | None,
    actions: np.ndarray,
) -> None:
    """Write the actions of step t, [E, n_c, ...], as the other arrays are."""
    lanes = COUNT * 4
    mask = None if available is None else available.reshape(lanes, -1)
    made.sample(distribution.reshape(lanes, -1), noise, t, mask, actions.reshape(lanes, *actions.shape[2:]))


def independent(policy: PolicyWeights, seen: np.ndarray, index: int) -> np.ndarray:
    """What a policy says of one observation, in float64 and without any batch."""
    t, network = policy.tensors, policy.network
    x = (seen - t["observation.mean"]) / np.sqrt(t["observation.var"] + 1e-8)
    x = np.clip(x, -policy.observation_clip, policy.observation_clip)
    if network.get("agentIds"):
        x = np.concatenate([x, np.eye(network["agentIds"])[index]])
    for i in range(len(network["hidden"])):
        x = t[f"policy.layers.{i}.weight"].astype(float) @ x + t[f"policy.layers.{i}.bias"]
        x = np.tanh(x) if network["activation"] == "tanh" else np.maximum(x, 0)
    out = t["policy.head.weight"].astype(float) @ x + t["policy.head.bias"]
    if network.get("dueling"):
        out = out - out.mean() + t["policy.value.weight"].astype(float) @ x + t["policy.value.bias"]
    if "policy.log_std" in t:
        out = np.concatenate([out, t["policy.log_std"]])
    return out


SEPARATE = {f"a_{i}": [f"a_{i}"] for i in range(4)}
PAIRS = {"a_1": ["a_1", "a_3"], "a_0": ["a_2", "a_0"]}
UNEQUAL = {"a_0": ["a_0", "a_2", "a_3"], "a_1": ["a_1"]}
ALL = {"a_0": ["a_0", "a_1", "a_2", "a_3"]}


@pytest.mark.parametrize("groups", [SEPARATE, PAIRS, UNEQUAL, ALL])
@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("discrete", {}),
        ("discrete", {"activation": "relu", "hidden": [7]}),
        ("discrete", {"agentIds": 4}),
        ("discrete", {"head": "q", "epsilon": 0.5}),
        ("discrete", {"head": "q", "epsilon": 0.5, "dueling": True, "agentIds": 4}),
        ("continuous", {}),
    ],
)
def test_each_agent_has_the_distribution_of_its_policy(
    kind: str, network: dict[str, Any], groups: dict[str, list[str]]
) -> None:
    made, weights = policies_of(four(kind), groups, **network)
    rng = np.random.default_rng(0)
    for _ in range(2):  # buffers are used again
        seen = rng.normal(size=(COUNT, 4, 5)).astype(np.float32)
        out = np.empty((COUNT, 4, made.actions.parameters), np.float32)
        made.distribution(seen, None, out)
        for e in range(COUNT):
            for i in range(4):
                expected = independent(weights.policies[weights.agents[f"a_{i}"]], seen[e, i], i)
                np.testing.assert_allclose(out[e, i], expected, rtol=2e-5, atol=2e-6)


def test_policies_of_one_class_may_differ_in_their_networks() -> None:
    """One learned by PPO, one a Q-learner with another width."""
    one = four()
    policies = {"p": mlp(5, 3, 1), "q": mlp(5, 3, 2, hidden=[6], head="q", epsilon=0.0, dueling=True)}
    weights = WeightsContainer("r", 1, policies, {"a_0": "q", "a_1": "p", "a_2": "q", "a_3": "p"})
    made = Policies(weights, (one,)).classes["a"]
    seen = np.random.default_rng(0).normal(size=(COUNT, 4, 5)).astype(np.float32)
    out = np.empty((COUNT, 4, 3), np.float32)
    made.distribution(seen, None, out)
    for i, name in enumerate(("q", "p", "q", "p")):
        np.testing.assert_allclose(
            out[1, i], independent(policies[name], seen[1, i], i), rtol=2e-5, atol=2e-6
        )
    actions = np.empty((COUNT, 4), np.int64)
    noise = made.noise(np.random.default_rng(SEED), 50, COUNT)
    drawn = []
    for t in range(50):
        sample(made, out, noise, t, None, actions)
        drawn.append(actions.copy())
    greedy = out.argmax(axis=-1)
    assert (np.array(drawn)[:, :, ::2] == greedy[:, ::2]).all()
    assert (np.array(drawn)[:, :, 1::2] != greedy[:, 1::2]).any()


def frequencies(
    made: ClassPolicies, distribution: np.ndarray, available: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """How often each agent took each action, [E, n_c, N], and the actions [L, E, n_c]."""
    noise = made.noise(np.random.default_rng(SEED), LENGTH, COUNT)
    actions = np.empty((LENGTH, COUNT, 4), np.int64)
    for t in range(LENGTH):
        sample(made, distribution, noise, t, available, actions[t])
    return np.stack([(actions == n).mean(axis=0) for n in range(3)], axis=-1), actions


def masked_distribution(**network: Any) -> tuple[ClassPolicies, np.ndarray, np.ndarray]:
    made, _ = policies_of(four(masked=True), SEPARATE, **network)
    seen = np.random.default_rng(1).normal(size=(COUNT, 4, 5)).astype(np.float32)
    available = np.array([[True, True, True], [False, True, True], [True, False, True], [False, False, True]])
    available = np.broadcast_to(available, (COUNT, 4, 3)).copy()
    out = np.empty((COUNT, 4, 3), np.float32)
    made.distribution(seen, available, out)
    assert (out[~available] == -1e9).all()
    return made, out, available


def test_categorical_actions_have_the_probabilities_of_the_masked_logits() -> None:
    made, out, available = masked_distribution()
    found, actions = frequencies(made, out, available)
    logits = np.where(available, out.astype(float), -np.inf)
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / math.sqrt(LENGTH))
    assert not found[~available].any()
    told = made.log_probabilities(np.broadcast_to(out, (LENGTH, *out.shape)), actions, None)
    wanted = np.take_along_axis(np.broadcast_to(expected, (LENGTH, *out.shape)), actions[..., None], -1)[
        ..., 0
    ]
    np.testing.assert_allclose(np.exp(told), wanted, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_a_q_head_explores_with_epsilon_among_the_available_actions(epsilon: float) -> None:
    made, out, available = masked_distribution(head="q", epsilon=epsilon)
    found, actions = frequencies(made, out, available)
    best = np.eye(3)[out.argmax(axis=-1)]
    expected = epsilon * available / available.sum(axis=-1, keepdims=True) + (1 - epsilon) * best
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / math.sqrt(LENGTH))
    assert not found[~available].any()
    many = (LENGTH, *out.shape)
    told = made.log_probabilities(np.broadcast_to(out, many), actions, np.broadcast_to(available, many))
    wanted = np.take_along_axis(np.broadcast_to(expected, many), actions[..., None], -1)[..., 0]
    np.testing.assert_allclose(np.exp(told), wanted, rtol=1e-5)
    np.testing.assert_array_equal(made.actions.mode(out), out.argmax(axis=-1))


def test_gaussian_actions_have_their_mean_and_deviation() -> None:
    made, _ = policies_of(four("continuous"), UNEQUAL)
    seen = np.random.default_rng(1).normal(size=(COUNT, 4, 5)).astype(np.float32)
    out = np.empty((COUNT, 4, 4), np.float32)
    made.distribution(seen, None, out)
    noise = made.noise(np.random.default_rng(SEED), LENGTH, COUNT)
    actions = np.empty((LENGTH, COUNT, 4, 2), np.float32)
    for t in range(LENGTH):
        sample(made, out, noise, t, None, actions[t])
    np.testing.assert_allclose(actions.mean(axis=0), out[..., :2], atol=4 * 0.61 / math.sqrt(LENGTH))
    np.testing.assert_allclose(actions.std(axis=0), np.exp(out[..., 2:]), rtol=0.1)
    told = made.log_probabilities(np.broadcast_to(out, (LENGTH, *out.shape)), actions, None)
    each = (
        -0.5 * ((actions - out[..., :2]) / np.exp(out[..., 2:])) ** 2
        - out[..., 2:]
        - 0.5 * math.log(2 * math.pi)
    )
    np.testing.assert_allclose(told, each.sum(axis=-1), rtol=1e-4, atol=1e-5)


def test_the_noise_of_an_agent_does_not_depend_on_who_shares_what() -> None:
    (separate, _), (shared, _) = policies_of(four(), SEPARATE), policies_of(four(), ALL)
    first, second = (
        separate.noise(np.random.default_rng(SEED), 20, COUNT),
        shared.noise(np.random.default_rng(SEED), 20, COUNT),
    )
    np.testing.assert_array_equal(first.actions, second.actions)


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ({"kind": "conv"}, "'conv'; policies of several agents are 'mlp'"),
        ({"hidden": "8"}, "hidden '8' must be a list"),
        ({"activation": "gelu"}, "activation 'gelu' is unknown"),
        ({"head": "gaussian"}, "head 'gaussian', but the actions need one of"),
        ({"head": "q"}, "epsilon None is no number from 0 to 1"),
        ({"head": "q", "epsilon": 1.5}, "epsilon 1.5 is no number"),
        ({"head": "q", "epsilon": True}, "epsilon True is no number"),
        ({"dueling": True}, "dueling True of a head 'categorical'"),
        ({"head": "q", "epsilon": 0.1, "dueling": True}, r"policy\.value"),
        ({"agentIds": 3}, "agentIds 3, but class a has 4 agents"),
        ({"agentIds": 4}, r"policy.layers.0.weight: shape \[8, 5\] instead of \[8, 9\]"),
    ],
)
def test_weights_that_do_not_fit_are_refused(network: dict[str, Any], text: str) -> None:
    made = mlp(5, 3, 0)
    check(made, four())
    with pytest.raises(wire.WireError, match=text):
        check(PolicyWeights({**made.network, **network}, made.tensors, made.observation_clip), four())


def test_weights_with_nan_and_of_other_agents_are_refused() -> None:
    spec = arena(1).spec
    weights = container(spec)
    broken = copy.deepcopy(weights)
    broken.policies["hunter_1"].tensors["policy.head.bias"][0] = np.nan  # type: ignore[index]
    with pytest.raises(wire.WireError, match=r"policy\.head\.bias: holds NaN"):
        Policies(broken, spec.classes)
    other = WeightsContainer("r", 1, weights.policies, {"hunter_0": "hunter_0"})
    with pytest.raises(wire.WireError, match=r"\['hunter_0'\], but the environment has"):
        Policies(other, spec.classes)
