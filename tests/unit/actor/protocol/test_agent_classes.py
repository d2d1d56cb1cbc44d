"""Agent classes: read from an EnvironmentSpec, and refused where they are ambiguous."""

from typing import Any

import pytest

from nitro_actor.protocol.agents import AgentClass, agent_classes, state_size
from nitro_actor.protocol.fields import MetadataError

SPACES: dict[str, Any] = {
    "observation": {"frame": [3], "dtype": "float32", "stack": 1},
    "action": {"kind": "discrete", "n": 5},
}


def entry(*agents: object) -> dict[str, Any]:
    return {"agents": list(agents), **SPACES}


def test_one_agent_is_one_class() -> None:
    (one,) = agent_classes(SPACES)
    assert one == AgentClass("agent", ("agent",), SPACES["observation"], SPACES["action"], mortal=False)


def test_classes_are_ordered_by_name_and_agents_as_they_are_listed() -> None:
    found = agent_classes({"classes": {"z": entry("z_1", "z_0"), "a": entry("a_0")}})
    assert [(one.name, one.agents) for one in found] == [("a", ("a_0",)), ("z", ("z_1", "z_0"))]
    assert all(one.mortal for one in found)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "at least one class"),
        ([], "must be an object"),
        ({"a/b": entry("x")}, "no name of a class"),
        ({"state": entry("x")}, "no name of a class"),
        ({"policy": entry("x")}, "no name of a class"),
        ({"a": entry()}, "at least one agent"),
        ({"a": 7}, "at least one agent"),
        ({"a": entry("x", "x")}, "'x' is no name of an agent, or occurs twice"),
        ({"a": entry("x"), "b": entry("x")}, "occurs twice"),
        ({"a": entry(7)}, "7 is no name of an agent"),
        ({"a": {"agents": ["x"], "observation": SPACES["observation"]}}, "action: must be an object"),
    ],
)
def test_ambiguous_classes_are_refused(classes: Any, message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        agent_classes({"classes": classes})


def test_the_size_of_the_global_state() -> None:
    assert state_size({"state": {"size": 18}}) == 18
    assert state_size({}) is None


@pytest.mark.parametrize("state", [7, {}, {"size": 0}, {"size": "6"}])
def test_a_wrong_size_of_the_global_state_is_refused(state: Any) -> None:
    with pytest.raises(MetadataError, match=r"state|size"):
        state_size({"state": state})
