"""Our networks as RLlib's module: the gradients of its losses are autograd's."""

import json
from typing import Any

import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor

from learner_support import learner_of
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.networks.actor_critic import chunk_size
from rllib_support import algorithm, rllib_job

IMAGES = {"observation": {"shape": [10, 10, 2], "dtype": "uint8"}, "action": {"kind": "discrete", "n": 3}}


def _learner(kind: str) -> Any:
    if kind == "vectors":
        return algorithm()
    if kind == "logStd: parameter":
        return algorithm(network__logStd="parameter")
    layers = json.dumps([{"channels": 4, "kernel": 4, "stride": 2}])
    spec = rllib_job(network__type="conv", network__convLayers=layers, network__hiddenSizes=[8]).spec
    return learner_of(spec, DescribedEnvironment.from_json(IMAGES))


@pytest.mark.parametrize("kind", ["vectors", "logStd: parameter", "images"])
def test_its_gradients_are_autograd_s(kind: str) -> None:
    """Over several chunks, of which the last one is smaller; without a trace of an earlier gradient."""
    learner = _learner(kind)
    module, network = learner.learner.module[DEFAULT_MODULE_ID].unwrapped(), learner.network
    generator = torch.Generator().manual_seed(0)
    rows = 2 * chunk_size(network.shape.images, "cpu") + 3
    if network.shape.images:
        observations = torch.randint(0, 256, (rows, 10, 10, 2), generator=generator, dtype=torch.uint8)
    else:
        observations = torch.randn(rows, 11, generator=generator)

    def gradients(outputs: Tensor, values: Tensor) -> list[Tensor]:
        weights = torch.linspace(-1, 1, rows)
        loss = (outputs.square().sum(1) * weights).mean() + (values * weights).mean()
        return list(torch.autograd.grad(loss, list(network.parameters())))

    batch = {"obs": observations}
    outputs, values = module.forward_train(batch)["action_dist_inputs"], module.compute_values(batch)
    expected_outputs, expected_values = network.policy(observations), network.critic(observations)[:, 0]
    torch.testing.assert_close(outputs, expected_outputs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values, expected_values, rtol=1e-5, atol=1e-5)
    before = [None if p.grad is None else p.grad.clone() for p in network.parameters()]
    found = gradients(outputs, values)
    for gradient, expected in zip(found, gradients(expected_outputs, expected_values), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    for parameter, kept in zip(network.parameters(), before, strict=True):
        assert (parameter.grad is None) == (kept is None)
        assert kept is None or torch.equal(parameter.grad, kept)
