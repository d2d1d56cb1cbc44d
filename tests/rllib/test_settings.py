"""RLlib's settings: mistakes are told by name before anything starts."""

import math
from typing import Any

import pytest

from learner_support import fragment
from nitro_api import JobInvalid
from nitro_learner.algorithms import availability
from nitro_learner.algorithms.base import OnPolicyLearner
from nitro_learner.checkpoints.store import pack
from nitro_rllib import settings
from rllib_support import algorithm, rllib_job

BASE = {
    "num_epochs": 2,
    "minibatch_size": 64,
    "grad_clip": 0.1,
    "use_kl_loss": True,
    "kl_target": 1e-9,
    "vf_clip_param": 1.0,
    "circular_buffer_num_batches": 2,
    "circular_buffer_iterations_per_batch": 2,
    "target_network_update_freq": 1,
}
"""Under these every setting matters."""

OTHERWISE = {
    "circular_buffer_iterations_per_batch": 1,
    "circular_buffer_num_batches": 1,
    "clip_param": 1e-3,
    "entropy_coeff": 0.5,
    "gamma": 0.5,
    "grad_clip": 0.01,
    "grad_clip_by": "value",
    "kl_coeff": 0.9,
    "kl_target": 1e9,
    "lambda_": 0.5,
    "lr": 0.1,
    "minibatch_size": 32,
    "num_epochs": 3,
    "shuffle_batch_per_epoch": False,
    "target_network_update_freq": 2,
    "tau": 0.5,
    "use_circular_buffer": False,
    "use_critic": False,
    "use_kl_loss": False,
    "vf_clip_param": 0.01,
    "vf_loss_coeff": 0.1,
    "vtrace_clip_pg_rho_threshold": 0.5,
    "vtrace_clip_rho_threshold": 0.5,
}
"""For each setting another value than in BASE or RLlib's own."""

ONLY_TRUE = {"vtrace"}
"""RLlib refuses its other value."""


@pytest.mark.parametrize(
    ("name", "given", "mistake"),
    [
        (
            "ppo",
            {"num_epoch": 3},
            "num_epoch: 3; is not a setting of RLlib's PPOConfig.training(); did you mean ",
        ),
        (
            "ppo",
            {"num_sgd_iter": 3},
            "num_sgd_iter: 3; is num_epochs in RLlib's PPOConfig.training(); rename it",
        ),
        (
            "ppo",
            {"sgd_minibatch_size": 9},
            "sgd_minibatch_size: 9; is minibatch_size in RLlib's PPOConfig.training(); rename it",
        ),
        (
            "appo",
            {"sgd_minibatch_size": 9},
            "sgd_minibatch_size: 9; is not set here; remove it and set spec.environment.rolloutLength",
        ),
        (
            "appo",
            {"target_update_frequency": 2},
            "target_update_frequency: 2; is target_network_update_freq in RLlib's APPOConfig.training(); ",
        ),
        (
            "impala",
            {"learning_rate": 0.1},
            "learning_rate: 0.1; is lr in RLlib's IMPALAConfig.training(); rename it",
        ),
        (
            "impala",
            {"lr_schedule": [[0, 0.1]]},
            "lr_schedule: [[0, 0.1]]; is lr in RLlib's IMPALAConfig.training(); rename it",
        ),
        ("ppo", {"n_epochs": 3}, "n_epochs: 3; is num_epochs in RLlib's PPOConfig.training(); rename it"),
        ("ppo", {"batch_size": 9}, "batch_size: 9; is minibatch_size in RLlib's PPOConfig.training(); "),
        (
            "ppo",
            {"total_timesteps": 9},
            "total_timesteps: 9; is not a setting of RLlib's PPOConfig.training(); did you mean "
            "spec.stop.envSteps?",
        ),
        ("ppo", {"clip": 0.1}, "clip: 0.1; is clip_param in RLlib's PPOConfig.training(); rename it"),
        (
            "impala",
            {"clip": 0.1},
            "clip: 0.1; is not a setting of RLlib's IMPALAConfig.training(); known are",
        ),
        ("ppo", {"gaeLambda": 0.9}, "gaeLambda: 0.9; is lambda_ in RLlib's PPOConfig.training(); rename it"),
        (
            "appo",
            {"gae_lambda": 0.9},
            "gae_lambda: 0.9; has no effect on RLlib's learner alone; remove it",
        ),
        (
            "appo",
            {"clip_parm": 1},
            "clip_parm: 1; is not a setting of RLlib's APPOConfig.training(); did you mean ",
        ),
        (
            "impala",
            {"clip_param": 0.2},
            "clip_param: 0.2; is not a setting of RLlib's IMPALAConfig.training(); ",
        ),
        (
            "ppo",
            {"lr": "fast"},
            'lr: "fast"; must be a number or a schedule [[step, value], ...]; correct it',
        ),
        ("ppo", {"num_epochs": 2.5}, "num_epochs: 2.5; must be a whole number; correct it"),
        ("ppo", {"use_kl_loss": 1}, "use_kl_loss: 1; must be true or false; correct it"),
        ("ppo", {"num_epochs": 0}, "num_epochs: 0; must be at least 1; raise it"),
        ("ppo", {"gamma": -0.5}, "gamma: -0.5; must be from 0 to 1; raise it"),
        ("ppo", {"gamma": 1.01}, "gamma: 1.01; must be from 0 to 1; lower it"),
        ("ppo", {"lambda_": 95}, "lambda_: 95; must be from 0 to 1; lower it"),
        ("appo", {"tau": 1.5}, "tau: 1.5; must be from 0 to 1; lower it"),
        ("appo", {"clip_param": 0}, "clip_param: 0; must be above 0; raise it"),
        ("ppo", {"vf_clip_param": 0}, "vf_clip_param: 0; must be above 0; raise it, or null switches it off"),
        (
            "impala",
            {"vtrace_clip_rho_threshold": 0},
            "vtrace_clip_rho_threshold: 0; must be above 0; raise it, or null switches it off",
        ),
        (
            "appo",
            {"vtrace_clip_pg_rho_threshold": 0},
            "vtrace_clip_pg_rho_threshold: 0; must be above 0; raise it, or null switches it off",
        ),
        (
            "ppo",
            {"clip_param": None},
            "clip_param: null; must be a number; correct it or leave it out for the default",
        ),
        (
            "ppo",
            {"lr": None},
            "lr: null; must be a number or a schedule [[step, value], ...]; correct it or leave it out",
        ),
        ("ppo", {"lr": [[0, 0.1], [9, -0.1]]}, "lr: [[0, 0.1], [9, -0.1]]; must be at least 0; raise it"),
        (
            "ppo",
            {"num_env_runners": 4},
            "num_env_runners: 4; is not set here; remove it and set spec.scaling",
        ),
        (
            "appo",
            {"minibatch_size": 64},
            "minibatch_size: 64; is not set here; remove it and set spec.environment.rolloutLength, since",
        ),
        ("ppo", {"opt_type": "adam"}, 'opt_type: "adam"; has no effect on RLlib\'s learner alone; remove it'),
        (
            "appo",
            {"learner_queue_size": 3},
            "learner_queue_size: 3; has no effect on RLlib's learner alone; ",
        ),
        ("ppo", {"use_gae": True}, "use_gae: true; has no effect on RLlib's learner alone; remove it"),
        ("appo", {"lambda_": 0.9}, "lambda_: 0.9; has no effect on RLlib's learner alone; remove it"),
        (
            "impala",
            {"shuffle_batch_per_epoch": True},
            "shuffle_batch_per_epoch: true; has no effect on RLlib's learner alone; remove it",
        ),
        (
            "ppo",
            {"framework": "torch"},
            'framework: "torch"; has no effect on RLlib\'s learner alone; remove it',
        ),
    ],
)
def test_a_wrong_setting_is_named(name: str, given: dict[str, Any], mistake: str) -> None:
    job = rllib_job(f"rllib/{name}", settings=given)
    with pytest.raises(JobInvalid) as refused:
        availability.check(job.spec)
    assert str(refused.value).startswith(f"spec.algorithm.rllib.{mistake}")


def test_a_number_without_an_end_is_refused() -> None:
    (mistake,) = settings.mistakes("rllib/ppo", {"vf_clip_param": math.inf})
    assert mistake.message == "must be finite; lower it, or null switches it off"


@pytest.mark.parametrize("name", settings.CONFIGS)
def test_every_setting_that_is_taken_has_an_effect(name: str) -> None:
    """On the weights or the state after a few updates. What a new minor of Ray adds needs a line in
    OTHERWISE, or in the list of those without an effect."""
    known = settings.keywords(name).keys() - ONLY_TRUE
    assert known <= OTHERWISE.keys()
    base = {key: value for key, value in BASE.items() if key in known}
    usual = _learned(name, base)
    assert _learned(name, base) == usual
    without = [key for key in sorted(known) if _learned(name, base | {key: OTHERWISE[key]}) == usual]
    assert without == []


@pytest.mark.parametrize(
    ("name", "key", "same"),
    [
        ("rllib/ppo", "grad_clip", 1e9),
        ("rllib/ppo", "minibatch_size", 0),
        ("rllib/ppo", "vf_clip_param", 1e9),
        *(
            (name, key, 1e9)
            for name in ("rllib/appo", "rllib/impala")
            for key in ("grad_clip", "vtrace_clip_pg_rho_threshold", "vtrace_clip_rho_threshold")
        ),
    ],
)
def test_null_switches_off_what_rllib_can_do_without(name: str, key: str, same: float) -> None:
    base = {one: value for one, value in BASE.items() if one in settings.keywords(name)}
    off = _learned(name, base | {key: None})
    assert off == _learned(name, base | {key: same})
    assert off != _learned(name, base | {key: OTHERWISE[key]})


def test_the_tables_name_settings_that_there_are() -> None:
    known = {key for name in settings.CONFIGS for key in settings.keywords(name)}
    ranges = settings._AT_LEAST_ONE | settings._AT_MOST_ONE | settings._ABOVE_ZERO
    assert {*settings._renamed().values(), *settings._NULLABLE, *ranges} <= known


def _learned(name: str, given: dict[str, Any]) -> bytes:
    """The state after four fragments, which two rounds of PPO learn from."""
    learner = algorithm(name, given, environment__rolloutLength=64)
    fragments = [fragment(slot, length=64) for slot in range(4)]
    if isinstance(learner, OnPolicyLearner):
        learner.update(fragments[:2], 1)
        learner.update(fragments[2:], 2)
    else:
        for one in fragments:
            learner.take([one])
        while learner.replay():
            pass
    return pack(1, learner.state_dict())


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(JobInvalid) as refused:
        availability.check(rllib_job(settings={"lrr": 1, "num_epochs": 0}).spec)
    assert {error.path for error in refused.value.errors} == {
        "spec.algorithm.rllib.lrr",
        "spec.algorithm.rllib.num_epochs",
    }


def test_what_rllib_itself_refuses_is_told_in_its_words() -> None:
    with pytest.raises(
        JobInvalid, match="RLlib refuses it: `grad_clip_by` \\(foo\\) must be one of"
    ) as refused:
        availability.check(rllib_job(settings={"grad_clip_by": "foo"}).spec)
    assert "suppress" not in str(refused.value)


@pytest.mark.parametrize("name", ["rllib/ppo", "rllib/appo", "rllib/impala"])
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_the_presets_are_valid(name: str, preset: str) -> None:
    availability.check(rllib_job(name, preset).spec)


def test_a_schedule_is_a_value_too() -> None:
    availability.check(rllib_job(settings={"lr": [[0, 1e-3], [100_000, 0]], "entropy_coeff": 0.01}).spec)
