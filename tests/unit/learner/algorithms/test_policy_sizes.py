"""Policies whose weights are more than a message may have are refused before they are made."""

from typing import Any

import pytest

import agents_jobs
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid
from nitro_learner.algorithms import registry
from nitro_learner.networks.architecture import NetworkMisfit
from train_support import job
from untrained_runs import resolved

MANY = {"kind": "discrete", "n": 100_000}
FEW = {"kind": "discrete", "n": 2}
BITS = {"kind": "multiBinary", "size": 90_000, "shape": [90_000]}


def seen(*shape: int) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": "float32", "frame": list(shape), "stack": 1}


def one(observation: dict[str, Any], action: dict[str, Any]) -> DescribedEnvironment:
    return DescribedEnvironment.from_json({"observation": observation, "action": action})


@pytest.mark.parametrize(
    ("network", "environment", "size"),
    [
        ({"hiddenSizes": [1024]}, one(seen(3), MANY), 391),
        ({"hiddenSizes": [1024]}, one(seen(), BITS), 352),
        ({"hiddenSizes": [512, 8]}, one(seen(100_000), FEW), 195),
        ({"hiddenSizes": [8], "recurrent": {"hiddenSize": 1024}}, one(seen(3), MANY), 403),
        (
            {
                "type": "conv",
                "hiddenSizes": [4096],
                "convLayers": [{"channels": 32, "kernel": 1, "stride": 1}],
            },
            one(seen(40, 40), FEW),
            800,
        ),
    ],
    ids=["actions", "bits", "observations", "memory", "image"],
)
def test_a_policy_for_which_no_message_has_room_is_refused(
    network: dict[str, Any], environment: DescribedEnvironment, size: int
) -> None:
    told = (
        rf"spec.network.hiddenSizes: \[.* make {size} MiB of weights for .* a message may have 128; make them"
    )
    with pytest.raises(JobInvalid, match=told):
        registry.make_policies(resolved(job(network=network)).spec, environment)


def test_policies_of_several_agents_are_counted_by_class() -> None:
    def spec(hidden: int) -> Any:
        return resolved(agents_jobs.job(network={"hiddenSizes": [hidden]}, sharing={"mode": "always"})).spec

    spaces = {"observation": seen(3), "action": {"kind": "discrete", "n": 50_000, "masked": False}}
    classes = {"a": {"agents": ["a_0", "a_1"], **spaces}, "b": {"agents": ["b_0", "b_1"], **spaces}}
    environment = DescribedEnvironment.from_json({"classes": classes})
    told = "make 196 MiB of weights for the 6 numbers .* the 100000 outputs of"
    with pytest.raises(JobInvalid, match=told):
        registry.make_policies(spec(512), environment)
    assert registry.make_policies(spec(8), environment).names


def test_what_is_wrong_with_an_image_is_told_first() -> None:
    with pytest.raises(NetworkMisfit, match="needs images of shape"):
        registry.make_policies(resolved(job(network={"type": "conv"})).spec, one(seen(100_000), MANY))
