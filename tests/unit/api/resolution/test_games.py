"""Atari games and convolutions in the job: what is filled in, what actors are told, what cannot fit."""

from __future__ import annotations

import pytest

from nitro_api import JobInvalid, JobSpec, load_job, resolve, warnings
from nitro_api.schema.explain import explain
from nitro_api.schema.openapi import preset_text

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: invaders}
spec:
  environment: {id: ALE/SpaceInvaders-v5}
"""


def spec(*changes: str) -> JobSpec:
    return resolve(load_job(JOB, changes)).spec


def layers(found: JobSpec) -> list[tuple[int, int, int, str]]:
    return [
        (layer.channels, layer.kernel, layer.stride, layer.padding)
        for layer in found.network.conv_layers or ()
    ]


def test_a_game_is_preprocessed_as_the_paper_says() -> None:
    found = spec("spec.algorithm.preset=paper")
    environment, atari = found.environment, found.environment.atari
    assert atari is not None
    assert (atari.frame_size, atari.frame_skip, atari.sticky_actions, atari.noop_max) == (84, 4, 0.25, 30)
    assert (environment.frame_stack, environment.clip_rewards) == (4, True)
    assert (environment.rollout_length, environment.envs_per_actor) == (16, 1)
    assert layers(found) == [(16, 8, 4, "same"), (32, 4, 2, "same"), (256, 11, 1, "valid")]
    assert (found.network.type, found.network.hidden_sizes, found.network.activation) == ("conv", [], "relu")
    assert not found.algorithm.hyperparameters.normalise_observations


def test_tuned_has_settings_of_its_own_for_games() -> None:
    found = spec()
    hyper = found.algorithm.hyperparameters
    assert layers(found) == [(32, 8, 4, "valid"), (64, 4, 2, "valid"), (64, 3, 1, "valid")]
    assert (hyper.learning_rate, hyper.clip, hyper.entropy_coefficient, hyper.epochs) == (
        2.5e-4,
        0.1,
        0.01,
        4,
    )
    assert found.environment.rollout_length % found.environment.envs_per_actor == 0


def test_impact_and_ppo_share_the_tuned_settings_for_games() -> None:
    ppo = spec().algorithm.hyperparameters
    impact = spec("spec.algorithm.name=impact").algorithm.hyperparameters
    # A batch is learned from `epochs` times whenever it is drawn, and drawn `bufferUses` times.
    assert impact.epochs * (impact.buffer_uses or 0) == ppo.epochs
    assert impact.batch_size % impact.minibatch_size == 0
    of_ppo, of_impact = ppo.to_dict(), impact.to_dict()
    shared = set(of_ppo) & set(of_impact) - {"epochs"}
    assert {"gamma", "entropyCoefficient", "minibatchSize", "clip", "learningRate", "maxGradNorm"} <= shared
    assert {name: of_impact[name] for name in shared} == {name: of_ppo[name] for name in shared}


@pytest.mark.parametrize("name", ["ppo", "impact"])
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_a_game_gives_no_warning_and_resolving_twice_changes_nothing(preset: str, name: str) -> None:
    job = load_job(JOB, [f"spec.algorithm.preset={preset}", f"spec.algorithm.name={name}"])
    assert warnings(job) == []
    assert resolve(resolve(job)) == resolve(job)
    assert load_job(resolve(job).to_yaml()).to_dict() == resolve(job).to_dict()


def test_given_settings_of_a_game_are_kept() -> None:
    environment = (
        "{id: ALE/Pong-v5, frameStack: 3, clipRewards: false, atari: {frameSize: 64, stickyActions: 0}}"
    )
    found = spec(f"spec.environment={environment}", "spec.network={type: mlp, hiddenSizes: [32]}")
    assert found.environment.atari is not None
    assert (found.environment.atari.frame_size, found.environment.atari.frame_skip) == (64, 4)
    assert (found.environment.frame_stack, found.environment.clip_rewards) == (3, False)
    assert (found.network.type, found.network.conv_layers, found.network.hidden_sizes) == ("mlp", None, [32])


def test_other_environments_get_neither_preprocessing_nor_convolutions() -> None:
    found = spec("spec.environment.id=Hopper-v5")
    assert (found.environment.atari, found.environment.frame_stack, found.environment.clip_rewards) == (
        None,
        1,
        False,
    )
    assert (found.network.type, found.network.conv_layers) == ("mlp", None)
    own = spec("spec.environment={id: ALE/Mine-v5, entryPoint: 'mine:Game'}")
    assert (own.environment.atari, own.network.type) == (None, "mlp")


def test_an_environment_of_the_user_can_have_convolutions() -> None:
    found = spec("spec.environment.id=Mine-v0", "spec.network.convLayers=[{channels: 8, kernel: 3}]")
    assert layers(found) == [(8, 3, 1, "valid")]
    assert (found.network.type, found.network.hidden_sizes) == ("conv", [512])


def test_an_actor_gets_the_preprocessing_of_the_game() -> None:
    assert spec().environment.to_actor() == {
        "id": "ALE/SpaceInvaders-v5",
        "kwargs": {},
        "envs": 8,
        "frameStack": 4,
        "clipRewards": True,
        "atari": {"frameSize": 84, "frameSkip": 4, "stickyActions": 0.25, "noopMax": 30},
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["spec.algorithm.preset=paper", "spec.environment.atari.frameSize=64"],
            r"convLayers\[2\].kernel: 11; has filters of 11 x 11, but the image that reaches it is 8 x 8",
        ),
    ],
)
def test_networks_that_cannot_fit_are_refused(changes: list[str], message: str) -> None:
    with pytest.raises(JobInvalid, match=message):
        load_job(JOB, changes)


def test_rllib_s_algorithms_take_images_too() -> None:
    spec = resolve(load_job(JOB, ["spec.algorithm.name=rllib/ppo", "spec.algorithm.preset=paper"])).spec
    assert spec.network.type == "conv"


def test_explain_shows_the_settings_of_games() -> None:
    assert "for Atari games paper 16, tuned 256" in explain("spec.environment.rolloutLength")
    assert "Default: 0.25" in explain("atari.stickyActions")
    assert "with type: conv relu" in explain("spec.network.activation")


def test_the_reference_names_the_combination_of_cases_that_differs() -> None:
    fields = "spec.algorithm.hyperparameters."
    assert preset_text(f"{fields}epochs").endswith("with name: impact for Atari games paper 1, tuned 2)")
    assert preset_text(f"{fields}gamma").startswith("paper 0.99, tuned 0.995 (with name: ")
    assert preset_text(f"{fields}gamma").endswith("; for Atari games 0.99)")
    assert preset_text(f"{fields}batchSize") == (
        "paper 4096, tuned 2048 (with name: dqn paper 32, tuned 64; with name: iql, vdn or qmix paper 32, "
        "tuned 128; with name: sac 256; with name: td3 or ddpg paper 100, tuned 256; "
        "for Atari games paper 256, tuned 1024; with name: dqn for Atari games paper 32, tuned 64; "
        "with name: sac for Atari games 256; with name: td3 or ddpg for Atari games paper 100, tuned 256)"
    )
