"""docs/development.md describes the messages completely: every field and tensor that they have is named."""

from pathlib import Path
from typing import Any

import pytest

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import AGENT_AXIS, FragmentContainer, evaluation_specs, tensor_specs
from nitro_actor.protocol.request import OPTIONAL_TENSORS, Request
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer

SECTION = (
    (Path(__file__).parents[4] / "docs" / "development.md").read_text().partition("## The wire format")[2]
)
COMMON: dict[str, Any] = {"run": "r", "round": 1, "slot": 0, "attempt": 0, "seed": 1}
KEYS: dict[str, Any] = {"weights_version": 1, "weights_key": "w", "result_key": "r", "ttl": 1}
ENVIRONMENT: dict[str, Any] = {
    "state": {"size": 3},
    "infoMetrics": ["success"],
    "observation": {"frame": [1], "dtype": "float32", "stack": 2},
    "action": {"kind": "discrete", "n": 2, "masked": True},
}


def keys_of(message: bytes) -> set[str]:
    """Names of all fields of the metadata, nested ones too."""

    def names(value: object) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(names, value))
        if isinstance(value, dict):
            return set(value).union(*map(names, value.values()))
        return set()

    return names(wire.decode(message)[0])


@pytest.mark.parametrize(
    "message",
    [
        Request("rollout", **COMMON, **KEYS, steps=2).encode(),
        Request("evaluate", **COMMON, **KEYS, episodes=1, max_steps=1, kwargs={"N": 1}).encode(),
        WeightsContainer.of_one_agent("r", 1, PolicyWeights({}, {})).encode(),
        FragmentContainer(
            "rollout", **COMMON, weights_version=1, steps=2, envs=1, resumed=False, tensors={}
        ).encode(),
    ],
)
def test_every_field_of_a_message_is_named(message: bytes) -> None:
    assert {name for name in keys_of(message) if name not in SECTION} == set()


def test_every_tensor_of_a_fragment_is_named() -> None:
    known = {f"c/{field}" for field in AGENT_AXIS}
    known |= {
        name
        for name in tensor_specs(DescribedEnvironment.from_json(ENVIRONMENT), 2, 1, OPTIONAL_TENSORS)
        if "/" not in name
    }
    known |= set(evaluation_specs(DescribedEnvironment.from_json(ENVIRONMENT), 1))
    specified = {
        name.replace("agent/", "c/")
        for name in tensor_specs(DescribedEnvironment.from_json(ENVIRONMENT), 2, 1, OPTIONAL_TENSORS)
    }
    assert specified <= known
    assert {name for name in known if f"`{name}`" not in SECTION} == set()


def test_the_page_is_of_this_version() -> None:
    assert f"is protocol\nversion {PROTOCOL_VERSION}." in SECTION
