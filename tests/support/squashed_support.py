"""Policies of the heads squashedGaussian and tanh, without a learner."""

from typing import Any

import numpy as np

from actor_support import weights
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.protocol.weights import PolicyWeights

HEADS: dict[str, dict[str, Any]] = {
    "squashedGaussian": {"head": "squashedGaussian"},
    "tanh": {"head": "tanh", "noise": 0.7},
}


def squashing(spec: EnvironmentSpec, head: str, /, **changes: Any) -> PolicyWeights:
    """A policy with random parameters and a head, whose outputs are widely spread.

    Args:
        spec: of an environment of one agent.
        changes: of the network's description.
    """
    given = weights(spec, log_std="state" if head == "squashedGaussian" else "parameter")
    tensors = {name: array for name, array in given.tensors.items() if name != "policy.log_std"}
    tensors["policy.head.weight"] = tensors["policy.head.weight"] * np.float32(3)
    kept = {name: value for name, value in given.network.items() if name not in ("head", "logStd")}
    return PolicyWeights({**kept, **HEADS[head], **changes}, tensors, given.observation_clip)
