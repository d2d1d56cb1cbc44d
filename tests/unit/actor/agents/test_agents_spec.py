"""What an environment of several agents says of itself: classes of equal spaces, masks, its global state."""

import json
from typing import Any

import pytest

from nitro_actor.agents.parallel import group
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.protocol.agents import agent_classes, state_size
from parallel_environments import arena, several


def test_classes_spaces_and_state_of_an_arena() -> None:
    spec = json.loads(json.dumps(arena(1, frame_stack=2).spec.to_json(), allow_nan=False))
    assert spec["classes"] == {
        "hunter": {
            "agents": ["hunter_0", "hunter_1"],
            "observation": {"shape": [8], "dtype": "float32", "frame": [4], "stack": 2},
            "action": {"kind": "discrete", "n": 4, "start": 1, "masked": True},
        },
        "runner": {
            "agents": ["runner_0"],
            "observation": {"shape": [2, 2, 2], "dtype": "float32", "frame": [2, 2], "stack": 2},
            "action": {"kind": "continuous", "size": 2, "low": [-1.0, -1.0], "high": [1.0, 1.0]},
        },
    }
    assert (spec["protocol"], spec["id"], spec["resumable"], spec["state"]) == (2, "arena", True, {"size": 4})
    assert {"numpy", "gymnasium", "pettingzoo"} <= set(spec["versions"])
    assert [one.name for one in agent_classes(spec)] == ["hunter", "runner"]
    assert state_size(spec) == 4


@pytest.mark.parametrize(
    ("spaces", "classes"),
    [
        ({"agent_0": 1, "agent_1": 1, "agent_10": 1}, {"agent": ["agent_0", "agent_1", "agent_10"]}),
        ({"b_1": 1, "a_0": 2, "b_0": 1}, {"a": ["a_0"], "b": ["b_1", "b_0"]}),
        ({"alice": 1, "bob": 1}, {"agent": ["alice", "bob"]}),
        ({"x_0": 1, "x_1": 2}, {"x": ["x_0"], "x_2": ["x_1"]}),
        ({"state_0": 1}, {"states": ["state_0"]}),
        ({"1": 1, "2": 1}, {"agent": ["1", "2"]}),
        ({"red.3": 1}, {"red": ["red.3"]}),
    ],
)
def test_names_of_classes(spaces: dict[str, int], classes: dict[str, list[str]]) -> None:
    found = group({agent: ({"shape": [size]}, {"n": 2}) for agent, size in spaces.items()})
    assert {one.name: list(one.agents) for one in found} == classes
    assert list(classes) == sorted(classes)


@pytest.mark.parametrize("name", [0, "two words", "", "a/b", "x" * 65])
def test_names_of_agents_that_cannot_be_sent_are_refused(name: Any) -> None:
    with pytest.raises(EnvironmentConfigError, match="is no name of an agent; a name is"):
        group({name: ({}, {})})


def test_a_state_of_all_observations_is_none_of_its_own() -> None:
    environment = several("mpe2/simple_speaker_listener_v4", 2)
    assert environment.spec.state_size is None
    assert environment.state() is None
