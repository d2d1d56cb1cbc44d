"""Numbers of the steps' info in fragments: what is counted, what is not, and that nothing else changes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, SlotRequest
from parallel_environments import container

TOLD = EnvironmentConfig(
    "told", 2, entry_point="info_environments:Told", info_metrics=("position", "success", "never", "odd")
)
ARENA = EnvironmentConfig("arena", 2, entry_point="info_environments:ToldArena", info_metrics=("number",))


def play(config: EnvironmentConfig, **arguments: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """An environment and a rollout in it, as messages have it."""
    from actor_support import Game, policies_of, weights

    environment = make_env(config)
    game = Game(environment)
    if not environment.spec.several:
        policy: Any = policies_of(weights(environment.spec), environment.spec)
    else:
        policy = game.policy(container(environment.spec))
    asked = {"seed": 3, "steps": 120, "state": {}, "optional_tensors": (), **arguments}
    game.evaluate(policy, seed=1, episodes=2, max_steps=30)  # whose steps do not count
    return environment, game.rollout(policy, **asked)


def test_the_numbers_of_a_rollout_are_summed_and_counted() -> None:
    environment, found = play(replace(TOLD, kwargs={"odd": 2}))
    assert environment.spec.to_json()["infoMetrics"] == ["position", "success", "never", "odd"]
    sums = found["info_metrics"]
    assert sums.dtype == np.float64
    position, success, never, odd = sums.tolist()
    # A walk's reward is its position.
    assert position == [pytest.approx(found["agent/rewards"].sum(dtype=np.float64), rel=1e-5), 120]
    assert success[1] == len(found["episode_lengths"]) > 0
    assert 0 <= success[0] <= success[1]
    assert never == [0, 0]
    assert odd[0] == 2 * odd[1] > 0


def test_everything_else_in_a_fragment_is_as_without_them() -> None:
    plain = replace(TOLD, info_metrics=())
    environment, found = play(plain)
    assert "infoMetrics" not in environment.spec.to_json()
    _, told = play(TOLD)
    assert told.keys() - found.keys() == {"info_metrics"}
    assert all(told[name].tobytes() == array.tobytes() for name, array in found.items())


@pytest.mark.parametrize("odd", ["nan", "inf", None, 1e300])
def test_a_number_that_is_none_does_not_count_and_ends_nothing(odd: Any) -> None:
    _, found = play(replace(TOLD, kwargs={"odd": odd}))
    assert found["info_metrics"][3].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            replace(TOLD, kwargs={"odd": "soon"}),
            "environment 0: the entry 'odd' of the info is 'soon', of type str; it must be an "
            "array of numbers",
        ),
        (
            replace(TOLD, kwargs={"odd": [1, 2]}),
            "environment 0: the entry 'odd' of the info has the shape [2]; each of "
            "spec.environment.infoMetrics must be one number",
        ),
        (
            replace(TOLD, entry_point="info_environments:NoInfo"),
            "environment 0: the info is None, of type NoneType; gymnasium expects a dictionary",
        ),
    ],
)
def test_what_is_no_number_is_refused_by_name(config: EnvironmentConfig, said: str) -> None:
    with pytest.raises(EnvironmentCallError) as refused:
        play(config)
    assert str(refused.value).startswith(said)


def test_agents_that_acted_count_each() -> None:
    environment, found = play(ARENA)
    assert environment.spec.to_json()["infoMetrics"] == ["number"]
    # hunter_1, of number 10, is out of the game for two of six steps.
    alive = found["hunter/alive"].sum((0, 1))
    assert found["info_metrics"].tolist() == [[10.0 * alive[1], float(alive.sum())]]


@pytest.mark.parametrize("config", [TOLD, ARENA, replace(TOLD, info_metrics=())])
def test_the_learner_reads_them_where_the_environment_has_them(config: EnvironmentConfig) -> None:
    environment, found = play(config)
    described = DescribedEnvironment.from_json(environment.spec.to_json())
    expect = Expectation("rollout", "r", 1, 1, described, 120, 2, slots={0: SlotRequest(3, resumed=False)})

    def message(tensors: dict[str, np.ndarray]) -> bytes:
        return FragmentContainer("rollout", "r", 1, 0, 0, 1, 3, 120, 2, False, tensors).encode()

    read = fragments.read(message(found), expect)
    assert tuple(read.info) == config.info_metrics
    assert "info_metrics" not in read.tensors
    for name, row in zip(config.info_metrics, found.get("info_metrics", ()), strict=True):
        assert read.info[name].tolist() == row.tolist()
    other = {n: a for n, a in found.items() if n != "info_metrics"}
    if not config.info_metrics:
        other = found | {"info_metrics": np.zeros((1, 2))}
    with pytest.raises(fragments.FragmentRefused):
        fragments.read(message(other), expect)


def test_a_mujoco_environment_tells_what_gymnasiums_does() -> None:
    environment, told = play(EnvironmentConfig("Hopper-v5", 2, info_metrics=("x_velocity", "reward_survive")))
    velocity, survive = told["info_metrics"].tolist()
    assert velocity[1] == survive[1] == 120
    assert survive[0] == 120 - told["terminated"].sum(), "a hopper that falls did not survive"
    assert environment.spec.resumable


@pytest.mark.parametrize("id_", ["ALE/Pong-v5", "smax/8m"])
def test_environments_without_infos_refuse_the_setting(id_: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=r"gives no infos; remove environment\.infoMetrics"):
        make_env(EnvironmentConfig(id_, 1, info_metrics=("lives",)))


def test_the_variable_has_them_only_where_a_job_names_them() -> None:
    text = '{"id": "CartPole-v1", "envs": 2, "infoMetrics": ["a", "b", "a"]}'
    assert EnvironmentConfig.from_json(text).info_metrics == ("a", "b")
    assert EnvironmentConfig.from_json('{"id": "CartPole-v1"}').info_metrics == ()
    with pytest.raises(EnvironmentConfigError, match="infoMetrics is 'a', it must be a list of names"):
        EnvironmentConfig.from_json('{"id": "CartPole-v1", "infoMetrics": "a"}')
