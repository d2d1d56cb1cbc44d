"""Environments of several agents that do not fit are refused in a sentence that says what to do."""

import os
import subprocess
import sys
from typing import Any

import pytest

from actor_support import Game
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from parallel_environments import container, several


@pytest.mark.parametrize(
    ("id_", "entry_point", "text"),
    [
        (
            "test",
            "parallel_environments:DictSpaces",
            r"a_0: observation space Dict\(.*must be a Box. Wrap the environment so that",
        ),
        ("test", "parallel_environments:Turns", "Turns is an AEC environment.*aec_to_parallel"),
        ("test", "actor_support:RUN", "str"),
        (
            "mpe2/simple_sprint_v3",
            None,
            "the package mpe2 has no module simple_sprint_v3",
        ),
        (
            "mpe3/simple_v3",
            None,
            "needs the package mpe3, which is not installed; install mpe3 for the Python",
        ),
        ("pettingzoo/utils/conversions_v0", None, "pettingzoo.utils has no module conversions_v0"),
        ("mpe2/simple_spread_v3", None, "cannot be built: TypeError.*colour"),
        (
            "test",
            "odd_pairs:Steered",
            r"a_0: it has an action_mask in its observations or its info, which only Discrete, MultiDiscrete "
            r"and MultiBinary actions can have, but its action space is Box\(.*Leave the mask out",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_at_once(id_: str, entry_point: str | None, text: str) -> None:
    kwargs: dict[str, Any] = {"colour": "red"} if id_ == "mpe2/simple_spread_v3" else {}
    with pytest.raises(EnvironmentConfigError, match=text):
        several(id_, 1, entry_point, **kwargs)


@pytest.mark.parametrize("kind", ["Discrete", "MultiBinary"])
def test_actions_for_which_no_policy_has_room_are_refused(kind: str) -> None:
    told = r"hand_0: action space .* outputs for it, of 100000 at most.*so that each agent observes one array"
    with pytest.raises(EnvironmentConfigError, match=told):
        several("test", 1, "parallel_environments:Hands", kind=kind)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("reward", "the reward of a_1 is nan, of type float; PettingZoo expects a finite number"),
        ("observation", "environment 0: an observation of a_1 holds NaN or infinity"),
        ("shape", r"an observation of a_1 has shape \[4\], but its space says \[3\]"),
        ("left", r"\['a_1'\] left `agents` without a termination or a truncation; report one of them"),
        ("alone", r"\['a_1'\] were truncated while \['a_0'\] play on; truncate all agents in the same step"),
        ("stranger", r"\['b'\] act, but possible_agents does not list them"),
        ("silent", "a_0 acts, but got no reward; return one for every agent in `agents`"),
        ("forbidden", "the action_mask of a_0 forbids every action; allow at least one"),
        ("forgotten", "a_0 acts, but got no action_mask, as it or an agent of its class did before"),
        ("unannounced", "a_0 got an action_mask, but no agent of its class had one in the infos of"),
        ("idle", r"\['a_1'\] acted in none of 100 episodes, and the same agents began all of them; possible"),
        ("size", r"possible_agents was \['a_0', 'a_1'\] and is \['a_0', 'a_1', 'a_2'\]; it must stay"),
        ("spaces", "the spaces of a_1 are .*, and were .*; they must stay the same"),
        ("raise", r"step of environment 0 raised ZeroDivisionError: the wheel came off \(.*"
                  r"parallel_environments.py:\d+ in step\)"),
    ],
)  # fmt: skip
def test_what_goes_wrong_later_ends_the_rollout_and_is_told(how: str, text: str) -> None:
    environment = several(count=2, entry_point="parallel_environments:Pair", how=how)
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    with pytest.raises(EnvironmentCallError, match=text):
        game.rollout(policies, seed=1, steps=600, state={}, optional_tensors=())


@pytest.mark.parametrize(
    ("entry_point", "kwargs", "text"),
    [
        (
            "tuple_environments:CrewOfLists",
            {"later": 2},
            r"terminated is \[True, False\] .* some agents end while others play on",
        ),
        (
            "tuple_environments:CrewOfDictionaries",
            {},
            r"terminated is {'agent_0': False.*it must be one bool, or one for each of 2",
        ),
        (
            "odd_pairs:Steered",
            {"how": "unannounced"},
            r"a_0 got an action_mask, which only Discrete, MultiDiscrete .* can have; leave it out",
        ),
        ("odd_pairs:Shades", {}, r"an observation of a_1 holds 0\.5, but its space is of uint8"),
    ],
)
def test_values_that_the_interface_does_not_have_are_told(
    entry_point: str, kwargs: dict[str, Any], text: str
) -> None:
    environment = several(count=1, entry_point=entry_point, **kwargs)
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    with pytest.raises(EnvironmentCallError, match=text):
        game.rollout(policies, seed=1, steps=9, state={}, optional_tensors=())


def test_the_same_without_a_fault_plays() -> None:
    environment = several(count=2, entry_point="parallel_environments:Pair")
    game = Game(environment)
    policies = game.policy(container(environment.spec))
    assert (
        len(game.rollout(policies, seed=1, steps=200, state={}, optional_tensors=())["episode_lengths"]) == 40
    )


def test_agents_of_random_line_ups_may_wait_long_for_their_turn() -> None:
    environment = several(count=1, entry_point="odd_pairs:Solo")
    game = Game(environment)
    policies = game.policy(container(environment.spec, {"a_0": list(environment.spec.agents)}))
    found = game.rollout(policies, seed=1, steps=600, state={}, optional_tensors=())
    assert len(found["episode_lengths"]) == 120
    acted = found["a/alive"].any(axis=(0, 1))
    assert 30 < acted.sum() < 60


def test_actors_of_one_agent_load_nothing_of_several() -> None:
    code = (
        "import sys, nitro_actor.server; from nitro_actor.config import EnvironmentConfig; "
        "from nitro_actor.make_env import make_env; from nitro_actor.actor import Actor; "
        "Actor(make_env(EnvironmentConfig('Hopper-v5', 1))); "
        "Actor(make_env(EnvironmentConfig('CartPole-v1', 1))); "
        "several = ('nitro_actor.agents', 'pettingzoo', 'mpe2', 'pygame'); "
        "found = [m for m in sys.modules if m.startswith(several)]; "
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), timeout=120)


def test_our_own_engine_loads_neither_gymnasium_nor_mpe2() -> None:
    code = (
        "import sys; from nitro_actor.config import EnvironmentConfig; "
        "from nitro_actor.make_env import make_env; from nitro_actor.actor import Actor; "
        "Actor(make_env(EnvironmentConfig('mpe2/simple_spread_v3', 4, {'N': 3}))); "
        "assert not {'gymnasium', 'pettingzoo', 'mpe2', 'pygame'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), timeout=120)
