"""The warning about wrappers that learn from every episode, with the setting to use in their place."""

from dataclasses import replace
from typing import Any

import pytest

from actor_support import environment
from learner_support import HOPPER
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import NitroTrainingJob, resolve
from nitro_learner.run.checking.job_fit import stateful_wrappers
from train_support import job

BOTH = replace(HOPPER, stateful_wrappers=("NormalizeObservation", "NormalizeReward"))


def said(algorithm: dict[str, Any]) -> list[str]:
    resolved = resolve(NitroTrainingJob.model_validate(job(algorithm=algorithm)))
    return stateful_wrappers(BOTH, resolved.spec)


@pytest.mark.parametrize(
    ("algorithm", "first", "second"),
    [
        (
            {"preset": "tuned"},
            "off, and normaliseObservations: true, whose statistics travel with the weights, is set",
            "off, and normaliseRewards: true, whose statistics travel with the weights, is set",
        ),
        (
            {"preset": "paper"},
            "off, and set normaliseObservations: true, whose statistics travel with the weights",
            "off, and set normaliseRewards: true, whose statistics travel with the weights",
        ),
        (
            {"name": "rllib/ppo", "preset": "tuned"},
            "take the wrapper off, and rllib/ppo has no normaliseObservations; ppo and impact have",
            "take the wrapper off, and rllib/ppo has no normaliseRewards; ppo and impact have",
        ),
    ],
)
def test_the_setting_is_named(algorithm: dict[str, Any], first: str, second: str) -> None:
    observation, reward = said(algorithm)
    assert observation.startswith(
        "spec.algorithm.hyperparameters.normaliseObservations: the environment has gym"
    )
    assert "gymnasium.wrappers.NormalizeObservation, whose statistics go on" in observation
    assert "gymnasium.wrappers.NormalizeReward, whose statistics go on" in reward
    assert first in observation
    assert second in reward


@pytest.mark.parametrize("id_", ["Hopper-v5", "CartPole-v1", "MountainCar-v0"])
def test_others_are_not_named(id_: str) -> None:
    resolved = resolve(NitroTrainingJob.model_validate(job()))
    assert (
        stateful_wrappers(DescribedEnvironment.from_json(environment(id_, 1).spec.to_json()), resolved.spec)
        == []
    )
