"""Episodes that cannot be resumed fit into a rollout by default, and runs keep what they began with."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from actor_support import environment
from nitro_api import NitroTrainingJob, load_job, resolve, resolve_stored, warnings
from nitro_api.resolution.episodes import NOT_RESUMABLE, RESUMABLE

OWN = "{id: own, entryPoint: 'actor_support:Forgetful'}"


def job(environment: str, *changes: str, preset: str = "tuned") -> NitroTrainingJob:
    data = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "x", "namespace": "y", "uid": "u"},
        "spec": {},
    }
    overrides = [f"spec.environment={environment}", f"spec.algorithm.preset={preset}", *changes]
    return load_job(data, overrides)


def rollouts(found: NitroTrainingJob) -> tuple[int, int]:
    return found.spec.environment.rollout_length, found.spec.environment.envs_per_actor


def test_the_table_knows_gymnasiums_environments() -> None:
    """All that have boxes to observe, as the registry has them."""
    packages = ("classic_control", "box2d", "mujoco")
    registered = {
        name: spec.max_episode_steps
        for name, spec in gymnasium.registry.items()
        if str(spec.entry_point).startswith(tuple(f"gymnasium.envs.{package}." for package in packages))
        and not name.endswith(("-v2", "-v3"))
    } | {name: gymnasium.spec(name).max_episode_steps for name in NOT_RESUMABLE}
    assert registered == RESUMABLE | NOT_RESUMABLE


@pytest.mark.parametrize("name", sorted(RESUMABLE.keys() - {"Pusher-v4"}))  # which MuJoCo 3 cannot play
def test_the_table_agrees_with_the_actors_about_resumable_environments(name: str) -> None:
    env = environment(name, 1)
    assert env.spec.resumable
    env.close()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("{id: Hopper-v5}", (512, 8)),
        ("{id: Humanoid-v4}", (512, 8)),
        ("{id: Hopper-v5, resumeEpisodes: false}", (512, 8)),
        ("{id: ALE/Pong-v5}", (256, 8)),
        ("{id: CartPole-v1}", (512, 8)),
        ("{id: MountainCarContinuous-v0}", (512, 8)),
        # Nobody can resume these: an episode fits.
        ("{id: LunarLander-v3}", (1024, 1)),
        ("{id: BipedalWalkerHardcore-v3}", (2048, 1)),
        ("{id: LunarLander-v3, kwargs: {max_episode_steps: 100}}", (512, 4)),
        ("{id: LunarLander-v3, rolloutLength: 4096}", (4096, 4)),
        ("{id: LunarLander-v3, rolloutLength: 600}", (600, 1)),
        ("{id: LunarLander-v3, envsPerActor: 8}", (512, 8)),
        ("{id: 'mine:Own-v0', kwargs: {max_episode_steps: 64}}", (512, 8)),
        ("{id: 'mine:Own-v0', kwargs: {max_episode_steps: 100000}}", (512, 1)),
        # Of these it is not known.
        ("{id: 'mine:Own-v0'}", (512, 1)),
        (OWN, (512, 1)),
        ("{id: Hopper-v5, entryPoint: 'actor_support:Forgetful'}", (512, 1)),
        ("{id: own, entryPoint: 'actor_support:Walk', envsPerActor: 8}", (512, 8)),
        ("{id: own, entryPoint: 'actor_support:Walk', rolloutLength: 100}", (100, 1)),
    ],
)
def test_tuned_cuts_no_episodes_that_cannot_be_resumed(chosen: str, expected: tuple[int, int]) -> None:
    resolved = resolve(job(chosen))
    assert rollouts(resolved) == expected
    assert resolve(resolved) == resolved


@pytest.mark.parametrize("algorithm", ["ppo", "impact", "rllib/ppo"])
@pytest.mark.parametrize("chosen", ["{id: LunarLander-v3}", OWN])
def test_a_preset_with_one_copy_keeps_its_rollouts(algorithm: str, chosen: str) -> None:
    assert rollouts(resolve(job(chosen, f"spec.algorithm.name={algorithm}", preset="paper"))) == (512, 1)


def stored(chosen: str, **training: Any) -> dict[str, Any]:
    return job(chosen).to_dict() | {"status": {"training": training}}


def test_a_run_on_a_cluster_keeps_the_rollouts_that_it_began_with() -> None:
    assert rollouts(resolve_stored(stored(OWN))) == (512, 1)
    assert rollouts(resolve_stored(stored(OWN, round=3, rolloutLength=512, envsPerActor=4))) == (512, 4)
    # What the job says stays.
    changed = stored(
        "{id: own, entryPoint: 'a:B', envsPerActor: 2}", round=3, rolloutLength=512, envsPerActor=4
    )
    assert rollouts(resolve_stored(changed)) == (512, 2)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ("{id: LunarLander-v3, envsPerActor: 8}", "its state cannot be saved"),
        ("{id: Hopper-v5, resumeEpisodes: false}", "resumeEpisodes is false"),
        ("{id: ALE/Pong-v5, resumeEpisodes: false}", "resumeEpisodes is false"),
    ],
)
def test_episodes_that_rollouts_are_known_to_cut_are_warned_of(chosen: str, why: str) -> None:
    (warning,) = warnings(job(chosen))
    assert warning.startswith("spec.environment.envsPerActor: each of 8 copies has ")
    assert why in warning
    assert "; set envsPerActor: 1" in warning
    assert warnings(job(chosen, "spec.environment.envsPerActor=1")) == []


@pytest.mark.parametrize(
    "chosen", ["{id: Reacher-v5, resumeEpisodes: false}", "{id: CartPole-v1}", "{id: own, envsPerActor: 8}"]
)
def test_episodes_that_fit_or_may_go_on_are_not_warned_of(chosen: str) -> None:
    assert warnings(job(chosen)) == []
