"""Jobs whose policies have a memory: what it goes with, and that jobs without one stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from agents_jobs import SPREAD, job, refusal
from nitro_api import load_job, resolve
from nitro_api.rules.payload_rules import least_weights


def recurrent(id: str = "Hopper-v5", name: str = "ppo", **spec: Any) -> dict[str, Any]:
    network = {"recurrent": {}, **spec.pop("network", {})}
    return job(id, name, network=network, **spec)


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_a_job_without_a_memory_says_nothing_of_it(preset: str) -> None:
    network = resolve(load_job(job("Hopper-v5", "ppo", algorithm={"preset": preset}))).spec.network
    assert "recurrent" not in network.to_dict()
    assert network.memory_size == 0


def test_a_memory_is_a_gru_of_64_units() -> None:
    network = resolve(load_job(recurrent())).spec.network
    assert network.to_dict()["recurrent"] == {"cell": "gru", "hiddenSize": 64}
    assert (network.type, network.memory_size) == ("mlp", 64)


@pytest.mark.parametrize(
    "source",
    [
        recurrent(environment={"frameStack": 2}),
        recurrent("ALE/Pong-v5", network={"type": "mlp", "hiddenSizes": [8]}),
        recurrent(SPREAD, "ippo"),
        recurrent(SPREAD, "mappo", sharing={"mode": "always"}),
        recurrent(SPREAD, "mappo", algorithm={"policies": [{"agents": "agent_0", "name": "ippo"}]}),
        recurrent(SPREAD, "iql"),
        recurrent(SPREAD, "vdn", algorithm={"teamReward": True}, sharing={"mode": "always"}),
        recurrent(SPREAD, "qmix", algorithm={"teamReward": True}),
        recurrent(SPREAD, "ippo", algorithm={"policies": [{"agents": "agent_0", "name": "iql"}]}),
    ],
)
def test_what_goes_with_a_memory(source: dict[str, Any]) -> None:
    assert resolve(load_job(source)).spec.network.memory_size == 64


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (recurrent(network={"type": "conv"}), "is only allowed with type: mlp and without convLayers"),
        (
            recurrent(network={"convLayers": [{"channels": 4, "kernel": 3}]}),
            "is only allowed with type: mlp and without convLayers",
        ),
        (recurrent("ALE/Pong-v5"), "is only allowed with type: mlp, and Atari games have conv by default"),
        (
            recurrent(name="impact"),
            "is only allowed with the algorithms ppo, ippo, mappo, iql, vdn and qmix; remove",
        ),
        (
            recurrent(name="rllib/ppo"),
            "is only allowed with the algorithms ppo, ippo, mappo, iql, vdn and qmix; remove",
        ),
        (
            recurrent(SPREAD, "vdn", algorithm={"teamReward": True}, sharing={"mode": "dynamic"}),
            "is only allowed where the sharing of policies does not",
        ),
        (
            recurrent(SPREAD, "ippo", sharing={"mode": "dynamic"}),
            "is only allowed where the sharing of policies does not",
        ),
    ],
)
def test_what_does_not_go_with_a_memory_is_refused(source: dict[str, Any], message: str) -> None:
    (error,) = refusal(source)
    assert error.path == "spec.network.recurrent"
    assert error.message.startswith(message)


def test_weights_on_lambda_count_the_recurrent_layer() -> None:
    """A layer of 64 hidden units, and of H more behind it, and the three gates of each of those."""
    plain, more = (
        resolve(load_job(job("Hopper-v5", "ppo", network={"hiddenSizes": [64], **network}))).spec
        for network in ({}, {"recurrent": {"hiddenSize": 128}})
    )
    before = 11 * 64 + 64 * 3
    after = 11 * 64 + 3 * 128 * (64 + 128) + 128 * 3
    assert least_weights(more) / least_weights(plain) == pytest.approx(after / before, rel=1e-3)
