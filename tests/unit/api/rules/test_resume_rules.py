"""Whether one job's policies fit another job."""

from __future__ import annotations

import pytest

from nitro_api import JobSpec, load_job, resolve
from nitro_api.rules.resume_rules import differences


def spec(*changes: str) -> JobSpec:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "hopper"},
        "spec": {"environment": {"id": "Hopper-v5"}},
    }
    return resolve(load_job(job, changes)).spec


@pytest.mark.parametrize(
    "change",
    [
        "spec.environment.kwargs={forward_reward_weight: 2}",
        "spec.algorithm.hyperparameters={learningRate: 1e-5, clip: 0.1}",
        "spec.scaling.maxActors=8",
        "spec.stop.rounds=7",
    ],
)
def test_a_job_may_differ_in_what_does_not_shape_its_policies(change: str) -> None:
    assert differences(spec(), spec(change)) == []


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        (
            "spec.network.hiddenSizes=[8]",
            "spec.network.hiddenSizes=[16, 16]",
            ["spec.network.hiddenSizes is [8] there and [16, 16] here"],
        ),
        (
            "spec.algorithm.hyperparameters.normaliseObservations=true",
            "spec.algorithm.hyperparameters.normaliseObservations=false",
            ["spec.algorithm.hyperparameters.normaliseObservations is True there and False here"],
        ),
        (
            "spec.environment.frameStack=1",
            "spec.environment.frameStack=2",
            ["spec.environment.frameStack is 1 there and 2 here"],
        ),
        (
            "spec.environment.rescaleActions=false",
            "spec.environment.rescaleActions=true",
            ["spec.environment.rescaleActions is False there and True here"],
        ),
        (
            "spec={environment: {id: mpe2/simple_spread_v3}, algorithm: {name: ippo}}",
            "spec={environment: {id: mpe2/simple_spread_v3}, algorithm: {name: ippo, policies: "
            "[{agents: 'a*', name: iql}]}}",
            [
                "spec.algorithm.policies[0].agents is None there and 'a*' here",
                "spec.algorithm.policies[0].name is None there and 'iql' here",
            ],
        ),
        (
            "spec={environment: {id: mpe2/simple_spread_v3}, algorithm: {name: ippo}}",
            "spec={environment: {id: mpe2/simple_spread_v3}, algorithm: {name: ippo}, "
            "sharing: {mode: dynamic}}",
            ["spec.sharing.mode is 'never' there and 'dynamic' here"],
        ),
    ],
)
def test_each_field_that_shapes_a_policy_is_named_with_both_values(
    there: str, here: str, said: list[str]
) -> None:
    found = differences(spec(there), spec(here))
    assert [line for line in found if line in said] == said
    assert all("policies[0]" in line for line in set(found) - set(said))


def test_another_algorithm_is_named() -> None:
    found = differences(spec(), spec("spec.algorithm.name=impact"))
    assert "spec.algorithm.name is 'ppo' there and 'impact' here" in found
