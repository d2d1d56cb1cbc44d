"""The plane of a landscape: which policies are played at its points."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from actor_support import environment, policies_of, rollout
from learner_support import job, lone_fragment
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import NitroTrainingJob
from nitro_experiments.studies.landscape import survey
from nitro_experiments.studies.probe import Probe
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.data.batch import Fragment
from nitro_learner.training.compute import Compute


class PlayedProbe:
    """A probe of a run's first round. It keeps the weights that it is asked to play."""

    def __init__(self, spec: NitroTrainingJob, env: Environment, compute: Compute) -> None:
        self.job, self.compute, self.round, self.actors = spec, compute, 1, 2
        self.policies = registry.make_policies(spec.spec, DescribedEnvironment.from_json(env.spec.to_json()))
        self._env = env
        self.played: list[dict[str, np.ndarray]] = []

    async def sample(self, slots: int) -> list[Fragment]:
        policy, steps = policies_of(self.policies.weights()[DEFAULT_POLICY], self._env.spec), 24
        return [
            lone_fragment(
                {"slot": slot, "resumed": False}, rollout(self._env, policy, seed=slot, steps=steps, state={})
            )
            for slot in range(slots)
        ]

    async def update(self, fragments: list[Fragment]) -> UpdateResult:
        return self.policies.update(fragments, self.round)[DEFAULT_POLICY]

    async def returns(self, tensors: Mapping[str, np.ndarray], episodes: int) -> np.ndarray:
        self.played.append(dict(tensors))
        return np.zeros(episodes)


@pytest.mark.parametrize("memory", [{}, {"network__recurrent__hiddenSize": 3}], ids=["plain", "recurrent"])
@pytest.mark.parametrize("objective", ["clip", "total"])
def test_a_point_plays_the_policy_at_its_distances_from_the_middle(
    memory: dict[str, Any], objective: str
) -> None:
    spec = job(
        "paper",
        environment__id="walk",
        environment__rolloutLength=24,
        scaling__minActors=2,
        scaling__mode="artifact" if objective == "total" else "paper",
        network__hiddenSizes=[4],
        algorithm__hyperparameters__epochs=2,
        **memory,
    )
    with Compute() as compute:
        probe = PlayedProbe(spec, environment("walk", 2, "actor_support:Walk"), compute)
        found = asyncio.run(
            survey(cast("Probe", probe), points=3, span=0.5, episodes=1, progress=lambda *_: None)
        )
    middle = probe.policies.weights()[DEFAULT_POLICY].tensors
    far = [
        np.sqrt(sum(((tensors[name] - middle[name]) ** 2).sum() for name in middle))
        for tensors in probe.played
    ]
    wanted = [np.hypot(found.x[j], found.x[i]) for i, j in product(range(3), repeat=2)]
    if objective == "clip":
        np.testing.assert_allclose(far, wanted, atol=1e-4)
    else:  # a part of the way is the critic's, which nobody plays
        assert far[4] == 0
        assert all(0 < near <= whole + 1e-4 for near, whole in zip(far, wanted, strict=True) if whole)
    assert len(np.unique(found.surrogate.round(6))) > 1
