"""Jobs for RLlib's algorithms: their settings, presets and rules."""

from typing import Any

import pytest

from nitro_api import JobInvalid, load_job, resolve, warnings
from nitro_api.schema.openapi import schema_at


def _job(**algorithm: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "job"},
        "spec": {"environment": {"id": "Hopper-v5"}, "algorithm": algorithm},
    }


def test_given_settings_are_kept_and_the_preset_gives_the_others() -> None:
    spec = resolve(
        load_job(_job(name="rllib/ppo", preset="paper", rllib={"lr": 0.01, "grad_clip": 1.0}))
    ).spec
    assert spec.algorithm.rllib == {
        "lr": 0.01,
        "gamma": 0.99,
        "lambda_": 1.0,
        "clip_param": 0.3,
        "kl_coeff": 0.2,
        "kl_target": 0.01,
        "entropy_coeff": 0.0,
        "vf_loss_coeff": 1.0,
        "vf_clip_param": 10.0,
        "num_epochs": 30,
        "minibatch_size": 0,
        "grad_clip": 1.0,
    }
    assert spec.algorithm.hyperparameters.to_dict() == {}
    assert (spec.scaling.min_actors, spec.scaling.max_actors) == (8, 64)


def test_paper_has_one_set_of_values_under_both_sets_of_names() -> None:
    """So runs with our PPO and with RLlib's compare."""
    ours = resolve(load_job(_job(preset="paper"))).spec.algorithm.hyperparameters
    theirs = resolve(load_job(_job(name="rllib/ppo", preset="paper"))).spec.algorithm.rllib
    assert theirs == {
        "lr": ours.learning_rate,
        "gamma": ours.gamma,
        "lambda_": ours.gae_lambda,
        "clip_param": ours.clip,
        "kl_coeff": ours.kl_coefficient,
        "kl_target": ours.kl_target,
        "entropy_coeff": ours.entropy_coefficient,
        "vf_loss_coeff": ours.value_coefficient,
        "vf_clip_param": ours.value_clip,
        "num_epochs": ours.epochs,
        "minibatch_size": ours.minibatch_size,
    }


@pytest.mark.parametrize("name", ["rllib/ppo", "rllib/appo", "rllib/impala"])
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_resolving_twice_changes_nothing_and_gives_no_warning(name: str, preset: str) -> None:
    job = load_job(_job(name=name, preset=preset))
    assert resolve(resolve(job)) == resolve(job)
    assert warnings(job) == []


def test_a_minibatch_above_the_smallest_round_gives_a_warning() -> None:
    (warning,) = warnings(load_job(_job(name="rllib/ppo", rllib={"minibatch_size": 5000})))
    assert warning.startswith("spec.algorithm.rllib.minibatch_size: 5000 exceeds the 4096 samples")


@pytest.mark.parametrize(
    ("algorithm", "mistake"),
    [
        (
            {"name": "ppo", "rllib": {"lr": 0.1}},
            'spec.algorithm.rllib: {"lr": 0.1}; is only allowed with a name that begins with rllib/; '
            "remove it or change the name",
        ),
        (
            {"name": "rllib/ppo", "hyperparameters": {"clip": 0.1}},
            'spec.algorithm.hyperparameters: {"clip": 0.1}; is not for the algorithms of RLlib; '
            "move the settings to rllib, under RLlib's names",
        ),
    ],
)
def test_settings_under_the_wrong_name_are_refused(algorithm: dict[str, Any], mistake: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        load_job(_job(**algorithm))
    assert str(refused.value) == mistake


def test_null_replaces_the_value_of_the_preset() -> None:
    """As it does in RLlib, whose way it is to switch a setting off. It outlasts the run's folder."""
    given = {"name": "rllib/ppo", "rllib": {"vf_clip_param": None, "minibatch_size": None}}
    job = resolve(load_job(_job(**given)))
    assert (job.spec.algorithm.rllib or {}).items() >= given["rllib"].items()
    assert load_job(job.to_yaml()).to_dict() == resolve(job).to_dict() == job.to_dict()


def test_an_override_by_null_switches_a_setting_off_and_removes_the_whole_block() -> None:
    data = _job(name="rllib/appo", rllib={"grad_clip": 1.0, "lr": 0.1})
    off = load_job(data, ["spec.algorithm.rllib.grad_clip=null"]).spec.algorithm
    assert off.rllib == {"grad_clip": None, "lr": 0.1}
    assert load_job(data, ["spec.algorithm.rllib=null"]).spec.algorithm.rllib is None


def test_a_null_gives_a_warning_because_kubectl_apply_drops_it() -> None:
    assert warnings(load_job(_job(name="rllib/appo", rllib={"grad_clip": None}))) == [
        "spec.algorithm.rllib.grad_clip: null is dropped by kubectl apply, and the default holds; "
        "on a cluster apply the job with --server-side"
    ]


def test_the_api_server_keeps_settings_that_the_schema_does_not_name() -> None:
    for path in ("model",), ("model", "fcnet_hiddens"), ("model", "fcnet_hiddens", 0):
        field = schema_at(("spec", "algorithm", "rllib", *path))
        assert field is not None
        assert field["x-kubernetes-preserve-unknown-fields"] is True
