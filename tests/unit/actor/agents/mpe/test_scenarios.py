"""Which environments and keyword arguments the engine takes; the others are left to mpe2 itself."""

import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest

from nitro_actor.agents.mpe.engine import MpeEngine
from nitro_actor.agents.mpe.scenarios import SCENARIOS, supports

SPREAD, ADVERSARY, TAG = SCENARIOS


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        *((name, {}) for name in SCENARIOS),
        (SPREAD, {"N": 8, "local_ratio": 0, "max_cycles": 100, "terminate_on_success": True}),
        (SPREAD, {"continuous_actions": False, "render_mode": None, "dynamic_rescaling": False}),
        (SPREAD, {"curriculum": False, "num_agent_neighbors": None, "benchmark_data": True}),
        (ADVERSARY, {"N": 1, "max_cycles": 1}),
        (TAG, {"num_good": 2, "num_adversaries": 5, "num_obstacles": 0, "terminate_on_success": True}),
    ],
)
def test_covered_arguments(name: str, kwargs: dict[str, Any]) -> None:
    assert supports(name, kwargs)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("mpe2/simple_push_v3", {}),
        ("simple_spread_v3", {}),
        (SPREAD, {"continuous_actions": True}),
        (SPREAD, {"curriculum": True}),
        (SPREAD, {"num_agent_neighbors": 2}),
        (SPREAD, {"num_landmark_neighbors": 2}),
        (SPREAD, {"render_mode": "human"}),
        (SPREAD, {"N": 0}),
        (SPREAD, {"N": 3.0}),
        (SPREAD, {"N": True}),
        (SPREAD, {"local_ratio": 1.5}),
        (SPREAD, {"local_ratio": None}),
        (SPREAD, {"max_cycles": 0}),
        (SPREAD, {"num_good": 1}),
        (ADVERSARY, {"terminate_on_success": True}),
        (ADVERSARY, {"local_ratio": 0.5}),
        (ADVERSARY, {"curriculum": False}),
        (TAG, {"num_good": 0}),
        (TAG, {"num_adversaries": 0}),
        (TAG, {"num_obstacles": -1}),
        (TAG, {"num_obstacles": False}),
    ],
)
def test_arguments_left_to_mpe2(name: str, kwargs: dict[str, Any]) -> None:
    assert not supports(name, kwargs)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_knows_every_argument_of_mpe2_and_its_default(name: str) -> None:
    """An argument that another release of mpe2 adds or changes is noticed here."""
    environment = importlib.import_module(name.replace("/", ".")).raw_env
    theirs = {
        parameter.name: parameter.default
        for parameter in inspect.signature(environment).parameters.values()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    assert SCENARIOS[name].defaults.items() <= theirs.items()
    for argument, default in theirs.items():
        assert supports(name, {argument: default}), argument
    assert supports(name, theirs)
    assert MpeEngine(name, 1, theirs).time_limit == theirs["max_cycles"]


def test_neither_mpe2_nor_pettingzoo_is_imported() -> None:
    code = (
        "import sys; from nitro_actor.agents.mpe import engine; "
        "engine.MpeEngine('mpe2/simple_tag_v3', 1, {}).reset([0]); "
        "found = {'mpe2', 'pettingzoo', 'pygame', 'gymnasium'} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
