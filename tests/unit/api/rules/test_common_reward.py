"""Algorithms whose agents learn from one reward: where there is one, and where the job must make it."""

from __future__ import annotations

import pytest

from agents_jobs import job, refusal
from nitro_api import load_job


@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_a_common_reward_must_be_made_where_agents_have_their_own(name: str) -> None:
    (error,) = refusal(job(name=name))
    assert error.path == "spec.algorithm.teamReward"
    assert error.message == (
        f"must be true with {name} in mpe2/simple_spread_v3, whose agents have rewards of their own; "
        "set it, or set spec.environment.kwargs.local_ratio: 0"
    )
    load_job(job(name=name, algorithm={"teamReward": True}))
    load_job(job(name=name, environment={"kwargs": {"local_ratio": 0}}))
    load_job(job("mine/cooperation_v1", name))


def test_a_side_of_a_game_may_learn_as_a_team() -> None:
    entry = {"agents": "adversary_*", "name": "vdn"}
    load_job(job("mpe2/simple_tag_v3", algorithm={"policies": [entry]}))
