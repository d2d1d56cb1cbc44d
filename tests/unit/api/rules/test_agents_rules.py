"""Jobs of several agents: what their defaults are, and what only the whole job shows to be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from agents_jobs import SPREAD, job, refusal
from nitro_actor.make_env import PETTING_ZOO, SMAX
from nitro_api import load_job, resolve, warnings
from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_api.resolution.episodes import resumable, time_limit
from nitro_api.resolution.presets import preset_values
from nitro_api.rules.agents_rules import SEVERAL_AGENTS


def test_rules_and_actors_know_ids_of_several_agents_by_one_pattern() -> None:
    assert f"^({PETTING_ZOO.pattern}|{SMAX}[0-9a-z_]+)$" == SEVERAL_AGENTS


def test_agents_neither_share_nor_have_a_team_reward_by_default() -> None:
    spec = resolve(load_job(job())).spec
    assert spec.sharing.to_dict() == {
        "mode": "never", "window": 10, "slope": 0.0, "similarity": "policy", "groupBatch": "equal",
    }  # fmt: skip
    assert spec.algorithm.team_reward is False
    assert (spec.environment.rollout_length, spec.environment.envs_per_actor) == (100, 4)


def test_battles_are_known_to_last_a_hundred_steps_and_to_be_resumable() -> None:
    environment = resolve(load_job(job("smax/3s5z"))).spec.environment
    assert (resumable(environment), time_limit(environment)) == (True, 100)
    (error,) = refusal(job("smax/3s5z", "ppo"))
    assert error.message.startswith("is an environment of several agents")


def test_a_single_agent_has_nothing_of_it() -> None:
    spec = resolve(load_job(job("Hopper-v5", "ppo"))).spec.to_dict()
    assert "sharing" not in spec
    assert not {"policies", "teamReward"} & set(spec["algorithm"])
    assert spec["scaling"]["window"] == 6
    assert "threshold" not in spec["scaling"]


@pytest.mark.parametrize(
    ("given", "window", "threshold"),
    [
        ({"scaler": "marless"}, 10, 0.5),
        ({"scaler": "marless", "window": 6, "threshold": 0.625}, 6, 0.625),
        ({"scaler": "nitro"}, 6, None),
    ],
)
def test_marless_scaler_has_its_own_window(given: Any, window: int, threshold: float | None) -> None:
    scaling = resolve(load_job(job(scaling=given))).spec.scaling
    assert (scaling.window, scaling.threshold) == (window, threshold)


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_agents_of_an_entry_have_the_settings_of_their_own_algorithm(preset: str) -> None:
    entry = {"agents": "adversary_*", "name": "mappo", "hyperparameters": {"gamma": 0.9}}
    source = job("mpe2/simple_tag_v3", algorithm={"preset": preset, "policies": [entry]})
    resolved = resolve(load_job(source))
    (own,) = resolved.spec.algorithm.policies or []
    assert isinstance(own.hyperparameters, PpoHyperparameters)
    start = "algorithm.hyperparameters."
    usual = preset_values(preset, algorithm="mappo").items()
    assert own.hyperparameters.to_dict() == {
        path.removeprefix(start): value for path, value in usual if path.startswith(start)
    } | {"gamma": 0.9}
    assert resolve(resolved) == resolved
    assert load_job(resolved.to_yaml()).to_dict() == resolved.to_dict()


def test_fragments_have_what_any_of_the_algorithms_needs() -> None:
    entry = {"agents": "adversary_*", "name": "mappo"}
    algorithm = load_job(job("mpe2/simple_tag_v3", algorithm={"policies": [entry]})).spec.algorithm
    assert algorithm.tensors == {"log_probs", "distribution", "global_state"}
    assert [record.name for record in algorithm.records] == ["ippo", "mappo"]


def test_a_setting_of_an_entry_that_changes_over_the_run_is_seen() -> None:
    entry = {"agents": "adversary_*", "name": "mappo", "hyperparameters": {"learningRateAnneal": True}}
    still = {"hyperparameters": {"learningRateAnneal": False}}
    assert resolve(load_job(job(algorithm={**still, "policies": [entry]}))).spec.algorithm.anneals
    assert not resolve(load_job(job(algorithm=still))).spec.algorithm.anneals


def test_toggles_must_fit_the_run() -> None:
    sharing = {"mode": "random-toggle", "toggles": 10}
    (error,) = refusal(job(sharing=sharing, stop={"rounds": 100}))
    assert (error.path, error.value) == ("spec.sharing.toggles", 10)
    assert error.message.startswith("must be less than stop.rounds / sharing.window")
    load_job(job(sharing=sharing, stop={"rounds": 101}))
    load_job(job(sharing={**sharing, "window": 5}, stop={"rounds": 51}))
    usual = resolve(load_job(job())).spec.stop.rounds
    (error,) = refusal(job(sharing=sharing | {"toggles": usual // 10}))
    assert error.message.startswith(f"must be at most {(usual - 1) // 10}, because there are")


@pytest.mark.parametrize(
    "id", ["mpe2/simple_spread_v3", "pettingzoo.sisl/waterworld_v4", "mine/game_v0", "a/b_c_v12"]
)
def test_ids_of_petting_zoo_are_of_several_agents(id: str) -> None:
    load_job(job(id))
    (error,) = refusal(job(id, "ppo"))
    assert error.path == "spec.environment.id"


@pytest.mark.parametrize("id", ["mine:Game-v0", "mine/Game-v0", "lbforaging/Foraging-8x8-2p-3f-v3"])
def test_ids_of_gymnasium_may_be_of_several_agents_or_of_one(id: str) -> None:
    load_job(job(id))
    load_job(job(id, "ppo"))


def test_an_entry_point_may_have_any_number_of_agents() -> None:
    mine = {"entryPoint": "mine:make"}
    load_job(job(environment=mine))
    load_job(job("Hopper-v5", environment=mine))
    load_job(job(SPREAD, "ppo", environment=mine))


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        ({"sharing": {"slope": 0.1}}, "spec.sharing.slope: has no effect with mode: never; remove it"),
        ({"sharing": {"mode": "always", "window": 5}}, "spec.sharing.window: has no effect with mode"),
        ({"scaling": {"scaler": "marless", "decay": 0.5}}, "spec.scaling.decay: has no effect with"),
    ],
)  # fmt: skip
def test_settings_without_effect_are_told(spec: dict[str, Any], warning: str) -> None:
    assert any(told.startswith(warning) for told in warnings(load_job(job(**spec))))


@pytest.mark.parametrize(
    "spec",
    [
        {"sharing": {"mode": "dynamic", "window": 5, "slope": 0.1, "similarity": "kde"}},
        {"sharing": {"mode": "random-base", "window": 5, "slope": 0.1, "similarity": "kde"}},
        {"sharing": {"mode": "random-toggle", "window": 5, "toggles": 2}},
        {"scaling": {"scaler": "marless", "threshold": 0.2, "window": 5}},
    ],
)
def test_settings_with_an_effect_are_not(spec: dict[str, Any]) -> None:
    assert warnings(load_job(job(**spec))) == []
