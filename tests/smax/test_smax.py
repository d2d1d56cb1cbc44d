"""SMAX: its battles are JaxMARL's, its fragments what the learner expects, and it starts without JaxMARL."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario

import smax_support
from nitro_actor import wire
from nitro_actor.agents.smax import programs
from nitro_actor.agents.smax.engine import SmaxEngine
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.environment import Environment
from nitro_actor.protocol.fragment import tensor_specs
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.state import bare
from smax_support import COPIES, digest, make, rollout

MAPS = ("3s5z", "8m")


@pytest.mark.parametrize("map_name", MAPS)
def test_battles_are_those_of_jaxmarl(map_name: str) -> None:
    """One copy beside JaxMARL's own environment, with the same keys and random actions, over some battles."""
    theirs = HeuristicEnemySMAX(scenario=map_name_to_scenario(map_name), attack_mode="closest")
    step, reset, masks = jax.jit(theirs.step_env), jax.jit(theirs.reset), jax.jit(theirs.get_avail_actions)
    engine, random = SmaxEngine(map_name, COPIES), np.random.default_rng(5)
    engine.reset(range(COPIES))
    key = np.random.SeedSequence(1).generate_state(2)
    key, used = np.asarray(jax.random.split(key))
    seen, state = reset(used)
    battles, fallen = 0, 0
    for _ in range(400):
        alive = np.asarray(state.state.unit_alive[:8])
        expected = np.stack([seen[agent] for agent in theirs.agents]) * alive[:, None]
        np.testing.assert_allclose(engine.observations["ally"][1], expected, atol=1e-5)
        np.testing.assert_allclose(engine.state()[1], seen["world_state"], atol=1e-5)
        allowed = np.stack([masks(state)[agent] for agent in theirs.agents]).astype(bool)
        np.testing.assert_array_equal(engine.available["ally"][1], allowed | ~alive[:, None])
        np.testing.assert_array_equal(engine.alive["ally"][1], alive)
        scores = random.random((COPIES, *allowed.shape))
        # Mostly attacks, so that there are victories too.
        scores[..., 5:] += 0.5
        actions = np.where(engine.available["ally"], scores, -1).argmax(axis=-1)
        outcome = engine.step({"ally": actions})
        chosen = {agent: int(actions[1, i]) if alive[i] else 4 for i, agent in enumerate(theirs.agents)}
        key, used = np.asarray(jax.random.split(key))
        seen, state, rewards, _, _ = step(used, state, chosen)
        np.testing.assert_allclose(
            outcome.rewards["ally"][1], alive * np.asarray(rewards["ally_0"]), rtol=1e-5, atol=1e-6
        )
        units = np.asarray(state.state.unit_alive)
        over = not units[:8].any() or not units[8:].any()
        assert outcome.terminated[1] == over
        np.testing.assert_array_equal(outcome.died["ally"][1], alive & (~units[:8] | over))
        fallen += int(outcome.died["ally"][1].sum())
        for index in np.flatnonzero(outcome.terminated):
            engine.reset_one(int(index))
        if over:
            battles += 1
            key, used = np.asarray(jax.random.split(key))
            seen, state = reset(used)
    assert battles >= 3
    assert fallen >= 8


@pytest.mark.parametrize("map_name", MAPS)
def test_a_fragment_is_what_the_protocol_says(map_name: str) -> None:
    environment = make(map_name)
    found = rollout(environment, 1200)
    spec = environment.spec.to_json()
    assert spec["classes"]["ally"]["action"] == {"kind": "discrete", "n": 13, "masked": True}
    assert spec["state"] == {"size": 192}
    assert spec["versions"].keys() >= {"numpy", "jax"}
    wire.check(
        {name: array for name, array in found.items() if not name.startswith("state/")},
        tensor_specs(spec, 1200, COPIES, OPTIONAL_TENSORS),
    )
    alive, available = found["ally/alive"], found["ally/available"]
    assert not found["ally/observations"][~alive].any()
    assert available[~alive].all()
    assert not found["ally/rewards"][~alive].any()
    assert not found["ally/died"][~alive].any()
    assert np.take_along_axis(available, found["ally/actions"][..., None], -1).all()
    ended = found["terminated"]
    assert ended.any()
    assert found["ally/died"][ended].sum() == alive[ended].sum()
    # The health taken from eight enemies, and the victory.
    assert (found["episode_returns"] >= 0).all()
    assert (found["episode_returns"] <= 2 + 1e-5).all()
    assert (found["episode_lengths"] <= 100).all()


def test_battles_are_cut_after_a_hundred_steps() -> None:
    engine = SmaxEngine("8m", COPIES)
    environment = Environment(engine, EnvironmentConfig("smax/8m", engine.count))
    environment.reset(range(COPIES))
    # Away from the enemies at first, who would otherwise end it; then to and fro.
    cut = [
        environment.step({"ally": np.where(engine.available["ally"][..., 3], 3, 4)}).truncated.copy()
        for _ in range(100)
    ]
    assert cut[-1].all()
    assert not np.any(cut[:-1])


def test_a_rollout_goes_on_to_the_bit() -> None:
    environment = make("3s5z")
    first = rollout(environment, 120)
    on = rollout(make("3s5z"), 120, seed=8, state=bare(first))
    again = rollout(environment, 120, seed=8, state=bare(first))
    assert digest(on) == digest(again)
    np.testing.assert_array_equal(on["ally/observations"][0], first["ally/last_observations"])
    np.testing.assert_array_equal(on["ally/available"][0], first["ally/last_available"])
    np.testing.assert_array_equal(on["global_state"][0], first["last_global_state"])


def test_an_actor_starts_without_jaxmarl_and_samples_the_same_bits() -> None:
    """Ready within 5 s of processor time and 1 GiB, and what it samples is what this process does."""
    expected = digest(rollout(make("3s5z"), 100))
    script = (
        "import nitro_actor.startup, json, resource, sys, time; sys.modules['jaxmarl'] = None; "
        "from smax_support import digest, make, rollout; found = digest(rollout(make('3s5z'), 100)); "
        "usage = resource.getrusage(resource.RUSAGE_SELF); "
        "print(json.dumps([found, time.process_time(), usage.ru_maxrss]))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(smax_support.__file__).parent)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    found, seconds, kib = json.loads(done.stdout)
    assert found == expected
    assert seconds < 5
    assert kib < 2**20


def test_a_number_of_copies_that_was_not_compiled_needs_jaxmarl(monkeypatch: pytest.MonkeyPatch) -> None:
    make("3s5z")
    monkeypatch.setattr(programs, "find_spec", lambda _: None)
    with pytest.raises(
        EnvironmentConfigError, match=r"compiled for \[4\] copies here, not for 3; set .*Actor"
    ):
        make("3s5z", count=3)


@pytest.mark.parametrize(
    ("map_name", "kwargs", "text"),
    [
        ("9m", {}, "smax/9m does not exist; set environment.id: smax/3s5z or smax/8m"),
        ("8m", {"max_steps": 9}, r"takes no arguments, but has \['max_steps'\]"),
    ],
)
def test_what_there_is_not_is_refused(map_name: str, kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(EnvironmentConfigError, match=text):
        make(map_name, kwargs=kwargs)


def test_a_snapshot_of_another_map_size_is_refused() -> None:
    engine = SmaxEngine("8m", COPIES)
    engine.reset(range(COPIES))
    snapshot = {name: array[:2] for name, array in engine.snapshot().items()}
    with pytest.raises(wire.WireError):
        engine.restore(snapshot)
