"""The weights container: round trips for one policy and for several, and refusal of everything else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.fields import MetadataError, ProtocolError
from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights, WeightsContainer

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]
NETWORK = {"kind": "mlp", "hidden": [4], "activation": "tanh"}

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
arrays = st.sampled_from(("float32", "float64")).flatmap(
    lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, max_dims=3, max_side=3))
)
policies = st.builds(
    PolicyWeights,
    network=st.just(NETWORK) | st.just({"kind": "conv", "convolutions": [{"channels": 3}]}),
    tensors=st.dictionaries(st.sampled_from(("policy.w", "policy.b", "observation.mean", "a/b")), arrays),
    observation_clip=st.none() | st.floats(0.1, 1e6),
)


def assert_same(one: WeightsContainer, other: WeightsContainer) -> None:
    assert (one.run, one.version, one.agents) == (other.run, other.version, other.agents)
    assert list(one.policies) == list(other.policies)
    for name, policy in one.policies.items():
        assert policy.meta == other.policies[name].meta
        assert policy.tensors.keys() == other.policies[name].tensors.keys()
        for tensor, array in policy.tensors.items():
            np.testing.assert_array_equal(other.policies[name].tensors[tensor], array)
            assert other.policies[name].tensors[tensor].dtype == array.dtype


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(names, policies, min_size=1, max_size=12), st.data())
def test_decode_returns_the_encoded_container(
    given_policies: dict[str, PolicyWeights], data: st.DataObject
) -> None:
    agents = data.draw(
        st.dictionaries(names, st.sampled_from(sorted(given_policies)), min_size=1, max_size=6)
    )
    container = WeightsContainer("run-1", 7, given_policies, agents)
    assert_same(container, WeightsContainer.decode(container.encode()))
    assert WeightsContainer.decode(container.encode()).encode() == container.encode()


def test_one_agent_plays_the_default_policy() -> None:
    tensors = {"policy.w": np.arange(3, dtype=np.float32)}
    meta, sent = wire.decode(
        WeightsContainer.of_one_agent("run-1", 7, PolicyWeights(NETWORK, tensors)).encode()
    )
    assert meta == {
        "protocol": PROTOCOL_VERSION,
        "run": "run-1",
        "version": 7,
        "policies": [{"name": "default", "network": NETWORK, "observationClip": None}],
        "agents": {"agent": "default"},
    }
    assert list(sent) == ["policy/0/policy.w"]


def message() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and tensors of a sound container of two policies and three agents."""
    tensors = {"policy.w": np.ones((2, 2), np.float32)}
    container = WeightsContainer(
        "run-1",
        7,
        {"good": PolicyWeights(NETWORK, tensors, 10.0), "adversary": PolicyWeights(NETWORK, tensors)},
        {"agent_0": "good", "agent_1": "good", "adversary_0": "adversary"},
    )
    return wire.decode(container.encode())


def meta(**changes: Any) -> Change:
    return lambda meta, _: meta.update(changes)


def policy(index: int, **changes: Any) -> Change:
    return lambda meta, _: meta["policies"][index].update(changes)


def tensor(name: str) -> Change:
    return lambda _, tensors: tensors.update({name: np.zeros(1)})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (meta(run="a:b"), "run"),
        (meta(run=None), "run"),
        (meta(version="7"), "version"),
        (meta(version=-1), "version"),
        (meta(policies=[]), "policies: must be a list of at least one"),
        (meta(policies={}), "policies: must be a list"),
        (meta(policies=[7]), "policies: must be a list"),
        (lambda meta, _: meta["policies"].pop(), "tensor policy/1/policy.w: not expected here"),
        (policy(1, name="good"), "names must differ"),
        (policy(1, name="a/b"), "is no name of a policy"),
        (policy(0, network=None), "network: must be an object"),
        (policy(0, observationClip="10"), "observationClip"),
        (policy(0, observationClip=0), "observationClip"),
        (policy(0, observationClip=True), "observationClip"),
        (meta(agents={}), "agents: must name at least one"),
        (meta(agents=["agent_0"]), "agents: must be an object"),
        (
            meta(agents={"agent_0": "third"}),
            r"agents\.agent_0: there is no policy 'third', only \['good', 'adv",
        ),
        (meta(agents={"agent_0": 0}), "there is no policy 0"),
        (meta(agents={"a/b": "good"}), "'a/b' is no name of an agent"),
        (tensor("policy.w"), "tensor policy.w: not expected"),
        (tensor("policy/2/policy.w"), "there are 2 policies"),
        (tensor("policy/00/policy.w"), "not expected"),
        (tensor("policy/0"), "not expected"),
        (tensor("policy/0/"), "not expected"),
        (tensor("other/0/policy.w"), "not expected"),
    ],
)
def test_a_wrong_container_is_refused_with_the_field(change: Change, text: str) -> None:
    meta, tensors = message()
    change(meta, tensors)
    with pytest.raises(MetadataError, match=text):
        WeightsContainer.decode(wire.encode(meta, tensors))


@pytest.mark.parametrize("version", [1, 3])
def test_another_protocol_is_refused_with_both_versions(version: int) -> None:
    meta, tensors = message()
    with pytest.raises(
        ProtocolError, match=f"is of protocol {version}, this actor speaks {PROTOCOL_VERSION}"
    ):
        WeightsContainer.decode(wire.encode(meta | {"protocol": version}, tensors))


def test_weights_of_the_release_before_are_refused_with_both_versions() -> None:
    old = {"schema": 1, "run": "run-1", "version": 7, "network": NETWORK, "observationClip": None}
    with pytest.raises(ProtocolError, match=f"is of protocol 1, this actor speaks {PROTOCOL_VERSION}"):
        WeightsContainer.decode(wire.encode(old, {"policy.w": np.zeros(1)}))


def test_the_field_schema_does_not_replace_protocol() -> None:
    meta, tensors = message()
    meta["schema"] = meta.pop("protocol")
    with pytest.raises(ProtocolError):
        WeightsContainer.decode(wire.encode(meta, tensors))


@pytest.mark.parametrize(
    "agents", [["agent_0", "agent_1"], ["agent_0", "agent_1", "adversary_0", "fourth"], []]
)
def test_the_agents_must_be_those_of_the_environment(agents: list[str]) -> None:
    container = WeightsContainer.decode(wire.encode(*message()))
    container.require_agents(["adversary_0", "agent_1", "agent_0"])
    with pytest.raises(MetadataError, match=r"agents: \['adversary_0', 'agent_0', 'agent_1'\], but"):
        container.require_agents(agents)


def test_the_names_of_one_agent_are_part_of_the_protocol() -> None:
    assert (AGENT, DEFAULT_POLICY) == ("agent", "default")
