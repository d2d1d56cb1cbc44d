"""Which environments are taken, how they are described, and what a wrong one is told."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actor_support import lone_environment as environment
from nitro_actor import PROTOCOL_VERSION
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError


def test_spec_of_continuous_actions() -> None:
    spec = environment("Hopper-v5", 1).spec.to_json()
    assert spec["protocol"] == PROTOCOL_VERSION
    assert spec["observation"] == {"shape": [11], "dtype": "float32", "frame": [11], "stack": 1}
    assert spec["action"] == {"kind": "continuous", "size": 3, "low": [-1.0] * 3, "high": [1.0] * 3}
    assert spec["resumable"] is True
    assert set(spec["versions"]) == {"gymnasium", "mujoco", "numpy"}


def test_spec_of_pixels_and_unbounded_actions() -> None:
    env = environment("pixels", 2, "actor_support:Pixels")
    spec = json.loads(json.dumps(env.spec.to_json(), allow_nan=False))
    assert spec["observation"] == {"shape": [4, 4, 1], "dtype": "uint8", "frame": [4, 4, 1], "stack": 1}
    assert spec["action"] == {"kind": "continuous", "size": 2, "low": [-1.0, None], "high": [1.0, None]}
    env.reset([0, 1])
    env.step(np.full((2, 2), 3.0, np.float32))  # clipped, reshaped and cast, or the environment asserts
    assert env.observations.dtype == np.uint8


def test_discrete_actions_start_where_the_space_does() -> None:
    env = environment("walk", 1, "actor_support:Walk", drift=0.5)
    assert env.spec.to_json()["action"] == {"kind": "discrete", "n": 3, "start": -1}
    env.reset([0])
    env.step(np.array([0]))  # -1 for the environment, or it asserts


def test_time_limits() -> None:
    """Of the registry, of an argument, and of a user's TimeLimit wrapper."""
    for env, limit in (
        (environment("CartPole-v1", 1), 500),
        (environment("CartPole-v1", 1, max_episode_steps=7), 7),
        (environment("CartPole-v1", 1, max_episode_steps=-1), None),
        (environment("limited", 1, "actor_support:limited_walk"), 8),
        (environment("walk", 1, "actor_support:Walk"), None),
    ):
        assert env.spec.time_limit == limit
    env = environment("Pendulum-v1", 1, max_episode_steps=7)
    env.reset([0])
    truncated = [bool(env.step(np.zeros((1, 1), np.float32))[2][0]) for _ in range(7)]
    assert truncated == [False] * 6 + [True]


def test_actions_stay_inside_bounds_that_float32_cannot_have() -> None:
    env = environment("narrow", 1, "actor_support:Narrow")
    env.reset([0])
    for action in (-5.0, 5.0):
        env.step(np.array([[action]], np.float32))  # or it asserts


def test_an_environment_may_seed_with_32_bits() -> None:
    env = environment("legacy", 2, "actor_support:Legacy")
    assert not env.spec.resumable, "its generator is not one that a state can hold"
    env.reset([2**63 + 5, 2**64 - 1])


@pytest.mark.parametrize("steps", [0, 7.5, "7", True])
def test_a_time_limit_is_a_whole_number(steps: object) -> None:
    with pytest.raises(EnvironmentConfigError, match=f"max_episode_steps is {steps!r}; it must be a whole"):
        environment("CartPole-v1", 1, max_episode_steps=steps)


def test_a_later_copy_that_cannot_be_built_is_reported() -> None:
    with pytest.raises(EnvironmentConfigError, match="cannot be built: OSError: the port is in use"):
        environment("few", 2, "actor_support:Few")


@pytest.mark.parametrize(
    ("name", "entry_point", "message"),
    [
        ("NoSuchEnvironment-v0", None, "cannot be built: NameNotFound.* Give a registered id"),
        ("x", "actor_support", "module:attribute"),
        ("x", "no_such_module:Thing", "run nitro in the folder that holds no_such_module .*PYTHONPATH"),
        (
            "x",
            "actor_support:NoSuchThing",
            "has no attribute 'NoSuchThing'.*correct what stands after the colon",
        ),
        ("x", "actor_support:Broken", "cannot be built: TypeError"),
        ("x", "builtins:dict", "must make a gymnasium.Env"),
        (
            "x",
            "actor_support:SequenceInDict",
            r"because \['seen'\]\[0\] is a Sequence space.* Make a Box .*TransformObservation",
        ),
        ("x", "actor_support:TextSpace", r"because it is a Text space.* Make a Box .*TransformObservation"),
        ("x", "actor_support:ImageInDict", r"because \['camera'\] is an image.*FilterObservation"),
        ("x", "actor_support:ManyPlaces", "flattened to 1000000000 numbers, of 100000 at most"),
        (
            "x",
            "actor_support:NothingSeen",
            r"observation space Box\(.*it holds no numbers. Give it one, such",
        ),
        ("x", "actor_support:EmptyImage", "observation space .* holds no numbers"),
        ("x", "actor_support:NothingToDo", r"action space Box\(.*it holds no numbers. Give it one, which"),
        (
            "x",
            "actor_support:DictActions",
            "must be a Box of floats, Discrete, MultiDiscrete or MultiBinary.*TransformAction",
        ),
        ("x", "actor_support:OtherShape", r"shape \[3\], but its space says \[2\]; .* resize or pad"),
    ],
)
def test_refuses(name: str, entry_point: str | None, message: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=message):
        environment(name, 1, entry_point)


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        ("Discrete", 10**8),
        ("MultiDiscrete", 10**19),
        ("many numbers", 120_000),
        ("MultiBinary", 10**10),
        ("Box", 100_001),
    ],
)
def test_an_action_space_for_which_no_policy_has_room_is_refused(kind: str, outputs: int) -> None:
    """Without making arrays of that size."""
    told = rf"(?s)action space .* a policy would need {outputs} outputs for it, of 100000 at most. Make"
    tracemalloc.start()
    try:
        with pytest.raises(EnvironmentConfigError, match=told):
            environment("x", 1, "actor_support:ManyActions", kind=kind)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys; sys.exit(3)", "importing of_a_user raised SystemExit: 3"),
        ("None.absent", "importing of_a_user raised AttributeError: 'NoneType'"),
        (
            "raise RuntimeError('no licence')",
            r"RuntimeError: no licence \(.*/of_a_user.py:1 in <module>\); `python -c 'import of_a_user'`",
        ),
        (
            "import no_such_package",
            r"'no_such_package' \(.*of_a_user.py:1 in <module>\)\); install what of_a_user needs",
        ),
    ],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    (tmp_path / "of_a_user.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentConfigError, match=message):
        environment("x", 1, "of_a_user:Thing")


@pytest.mark.parametrize("variable", ["KUBERNETES_SERVICE_HOST", "AWS_LAMBDA_FUNCTION_NAME"])
def test_a_module_that_is_missing_on_a_cluster_belongs_in_the_image(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "set")
    with pytest.raises(EnvironmentConfigError, match="install its package in the actor's image") as caught:
        environment("x", 1, "no_such_module:Thing")
    assert "PYTHONPATH" not in str(caught.value)


@pytest.mark.parametrize("kwargs", [{"no_such_argument": 1}, {"main_body": "no such body"}])
def test_refuses_wrong_arguments(kwargs: dict[str, object]) -> None:
    with pytest.raises(EnvironmentConfigError, match="cannot be built"):
        environment("Ant-v5", 1, **kwargs)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"id":"a","envs":0}', '{"id":"a","envs":true}', '{"id":"a","extra":1}']
)
def test_refuses_wrong_settings(text: str) -> None:
    with pytest.raises(EnvironmentConfigError, match="NITRO_ENVIRONMENT"):
        EnvironmentConfig.from_json(text)


def test_settings() -> None:
    text = '{"id":"a","envs":4,"kwargs":{"b":1},"entryPoint":"m:c"}'
    assert EnvironmentConfig.from_json(text) == EnvironmentConfig("a", 4, {"b": 1}, "m:c")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "step of environment 0 raised ZeroDivisionError: the wheel came off"),
        ("shape", r"observation has shape \[3\]"),
    ],
)
def test_a_failure_of_an_environment_names_its_line(how: str, message: str) -> None:
    env = environment("broken", 1, "actor_support:Broken", how=how)
    env.reset([0])
    for _ in range(6):
        env.step(np.array([1]))
    with pytest.raises(EnvironmentCallError, match=message):
        env.step(np.array([1]))


@pytest.mark.parametrize(
    ("kwargs", "wrong"),
    [
        ({"factor": 1 / 255}, r"0\.\d+"),
        ({"factor": 2, "dtype": "int64"}, r"[345]\d\d"),
        ({"factor": -1, "dtype": "int16"}, r"-\d+"),
        ({"factor": np.nan}, "nan"),
    ],
)
def test_an_observation_that_uint8_would_change_is_told(kwargs: dict[str, Any], wrong: str) -> None:
    env = environment("dimmed", 1, "actor_support:Dimmed", **kwargs)
    env.reset([0])
    told = f"environment 0: an observation holds {wrong}, but its space is of uint8, .* from 0 to 255; scale"
    with pytest.raises(EnvironmentCallError, match=told):
        env.step(np.zeros((1, 2), np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_whole_numbers_of_any_dtype_fit_a_space_of_uint8(dtype: str) -> None:
    plain = environment("pixels", 1, "actor_support:Pixels")
    other = environment("dimmed", 1, "actor_support:Dimmed", factor=1, dtype=dtype)
    for env in (plain, other):
        env.reset([0])
        env.step(np.zeros((1, 2), np.float32))
    np.testing.assert_array_equal(plain.observations, other.observations)
    assert other.observations.dtype == np.uint8
