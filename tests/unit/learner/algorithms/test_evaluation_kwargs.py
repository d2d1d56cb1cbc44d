"""Evaluations with kwargs of their own need actors that play them; those of earlier releases ignore them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nitro_actor.config import EnvironmentConfig
from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid
from nitro_learner.algorithms import fits, registry
from train_support import job
from untrained_runs import resolved

ACTOR = DescribedEnvironment.from_json(make_env(EnvironmentConfig("Hopper-v5", 1)).spec.to_json())
FORMER = replace(ACTOR, evaluation_kwargs=False)


def spec(*sets: dict[str, Any]) -> Any:
    return resolved(job(evaluation={"episodes": 2, "everyRounds": 2, "environment": list(sets)})).spec


def test_kwargs_that_actors_would_ignore_are_refused() -> None:
    wanted = spec({"name": "plain"}, {"name": "far", "kwargs": {"reset_noise_scale": 0.2}})
    fits.check(wanted, ACTOR)
    for check in (fits.check, registry.make_policies):
        with pytest.raises(
            JobInvalid, match=r"spec\.evaluation\.environment: .?far.?; has kwargs, which the actors' "
        ):
            check(wanted, FORMER)


def test_a_set_with_a_seed_alone_needs_nothing_of_them() -> None:
    fits.check(spec({"name": "same", "seed": 1000}), FORMER)


def test_actors_of_several_agents_say_it_too() -> None:
    several = make_env(EnvironmentConfig("mpe2/simple_spread_v3", 1)).spec.to_json()
    assert several["evaluationKwargs"] is True
