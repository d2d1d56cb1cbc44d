"""Several agents through real actor processes: rounds, end states, and errors as a user sees them."""

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parallel_environments
from local_support import RUN
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.protocol.weights import WeightsContainer
from nitro_api import JobSpec, load_job, resolve
from nitro_learner.backends.base import BackendError
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.local import LocalBackend
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.fragments import end_state
from nitro_learner.sampling.plans import RoundFailed, RoundPlan, RoundResult

SUPPORT = str(Path(parallel_environments.__file__).parent)
ENVS, STEPS = 2, 60


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the actors' processes find the environments."""
    paths = [SUPPORT, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def job(**environment: Any) -> JobSpec:
    """Two processes with copies of an environment."""
    manifest = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "test"},
        "spec": {
            "environment": {"rolloutLength": STEPS, "envsPerActor": ENVS, **environment},
            "algorithm": {"name": "ippo"},
            "backend": {"type": "Local", "local": {"processes": 2}},
        },
    }
    return resolve(load_job(manifest)).spec


def play(spec: JobSpec, rounds: int, *, resume: bool = True) -> list[RoundResult]:
    """Rounds of two slots with weights that do not change; the end state of each goes into the next."""

    async def run() -> list[RoundResult]:
        backend = LocalBackend(spec, RUN)
        try:
            environment = await backend.start()
            of_agents = EnvironmentSpec(
                environment.id, environment.classes, None, None, environment.resumable
            )
            cache = RedisCache(backend.redis_url, RUN)
            await cache.publish_weights(0, weights(of_agents))
            work = Dispatcher(
                backend,
                cache,
                environment,
                envs=ENVS,
                optional_tensors=["log_probs", "distribution", "global_state"],
                timeout_seconds=60.0,
                deadline_seconds=120.0,
            )
            results: list[RoundResult] = []
            try:
                for round in range(1, rounds + 1):
                    plan = RoundPlan(RUN, 5, round, 0, STEPS, 2, **states(results, resume=resume))
                    work.start_slots(plan, range(2))
                    results.append(await work.finish(plan))
            finally:
                await work.close()
                await cache.close()
            return results
        finally:
            await backend.close()

    return asyncio.run(run())


def weights(spec: EnvironmentSpec) -> bytes:
    """A random policy for each agent, as version 0."""
    made = parallel_environments.container(spec, run=RUN)
    return WeightsContainer(made.run, 0, made.policies, made.agents).encode()


def states(results: list[RoundResult], *, resume: bool) -> dict[str, Any]:
    """What a plan says of end states."""
    if not results or not resume:
        return {}
    return {"states": {one.slot: end_state(one) for one in results[-1].fragments}}


def arena(**kwargs: Any) -> JobSpec:
    return job(id="arena", entryPoint="parallel_environments:Arena", kwargs=kwargs)


def same(one: Fragment, other: Fragment) -> None:
    for mine, others in (
        (one.tensors, other.tensors),
        *zip(one.by_class.values(), other.by_class.values(), strict=True),
    ):
        assert set(mine) == set(others)
        for name, array in mine.items():
            np.testing.assert_array_equal(array, others[name], err_msg=name)


def test_rounds_go_on_and_are_equal_to_the_bit_when_they_are_played_again() -> None:
    first = play(arena(), 3)
    for result in first:
        assert result.lost == []
        for fragment in result.fragments:
            hunters = fragment.by_class["hunter"]
            assert hunters["observations"].shape == (STEPS // ENVS, ENVS, 2, 4)
            assert not hunters["alive"].all()
            assert fragment.tensors["global_state"].shape == (STEPS // ENVS, ENVS, 4)
    for before, after in pairwise(first):
        for one, next_one in zip(before.fragments, after.fragments, strict=True):
            assert next_one.resumed
            for name in ("hunter", "runner"):
                began, ended = next_one.by_class[name], one.by_class[name]
                np.testing.assert_array_equal(began["observations"][0], ended["last_observations"])
    for result, again in zip(first, play(arena(), 3), strict=True):
        for one, other in zip(result.fragments, again.fragments, strict=True):
            same(one, other)


@pytest.mark.parametrize(
    "environment",
    [
        {"id": "mpe2/simple_spread_v3", "kwargs": {"N": 3}},
        {"id": "mpe2/simple_adversary_v3"},
        {"id": "mpe2/simple_speaker_listener_v4"},
        {"id": "lbforaging:Foraging-8x8-2p-2f-v3"},
    ],
    ids=lambda environment: environment["id"],
)
def test_named_environments_play_in_actor_processes(environment: dict[str, Any]) -> None:
    (result,) = play(job(**environment), 1)
    assert [fragment.slot for fragment in result.fragments] == [0, 1]
    assert all(one["alive"].all() for fragment in result.fragments for one in fragment.by_class.values())


def test_an_environment_that_cannot_be_played_ends_the_start_in_a_sentence() -> None:
    spec = job(id="turns", entryPoint="parallel_environments:Turns")
    with pytest.raises(BackendError, match=r"Turns is an AEC environment.*aec_to_parallel"):
        play(spec, 1)


def test_an_error_of_the_environment_names_the_line_of_the_user() -> None:
    spec = job(id="pair", entryPoint="parallel_environments:Pair", kwargs={"how": "raise"})
    with pytest.raises(RoundFailed) as caught:
        play(spec, 1)
    assert "raised ZeroDivisionError: the wheel came off" in str(caught.value)
    assert "parallel_environments.py:" in str(caught.value)
    assert "ZeroDivisionError" in (caught.value.evidence.trace or "")
    assert not caught.value.resumable
