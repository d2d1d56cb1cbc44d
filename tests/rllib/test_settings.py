"""RLlib's settings: mistakes are told by name before anything starts."""

from typing import Any

import pytest

from nitro_api import JobInvalid
from nitro_learner import extras
from rllib_support import rllib_job


@pytest.mark.parametrize(
    ("name", "settings", "mistake"),
    [
        (
            "ppo",
            {"num_epoch": 3},
            "num_epoch: 3; is not a setting of RLlib's PPOConfig.training(); did you mean ",
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
        ("ppo", {"gamma": -0.5}, "gamma: -0.5; must be at least 0; raise it"),
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
        (
            "ppo",
            {"framework": "torch"},
            'framework: "torch"; has no effect on RLlib\'s learner alone; remove it',
        ),
    ],
)
def test_a_wrong_setting_is_named(name: str, settings: dict[str, Any], mistake: str) -> None:
    job = rllib_job(f"rllib/{name}", settings=settings)
    with pytest.raises(JobInvalid) as refused:
        extras.check(job.spec)
    assert str(refused.value).startswith(f"spec.algorithm.rllib.{mistake}")


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(JobInvalid) as refused:
        extras.check(rllib_job(settings={"lrr": 1, "num_epochs": 0}).spec)
    assert {error.path for error in refused.value.errors} == {
        "spec.algorithm.rllib.lrr",
        "spec.algorithm.rllib.num_epochs",
    }


def test_what_rllib_itself_refuses_is_told_in_its_words() -> None:
    with pytest.raises(
        JobInvalid, match="RLlib refuses it: `grad_clip_by` \\(foo\\) must be one of"
    ) as refused:
        extras.check(rllib_job(settings={"grad_clip_by": "foo"}).spec)
    assert "suppress" not in str(refused.value)


@pytest.mark.parametrize("name", ["rllib/ppo", "rllib/appo", "rllib/impala"])
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_the_presets_are_valid(name: str, preset: str) -> None:
    extras.check(rllib_job(name, preset).spec)


def test_a_schedule_is_a_value_too() -> None:
    extras.check(rllib_job(settings={"lr": [[0, 1e-3], [100_000, 0]], "entropy_coeff": 0.01}).spec)
