"""What the tests of policies with a memory share: random recurrent layers, and a step of one in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer

SIZE = 6
"""H."""


def with_memory(policy: PolicyWeights, size: int = SIZE, seed: int = 0) -> PolicyWeights:
    """The policy with a recurrent layer between its hidden layers and its head."""
    rng = np.random.default_rng([seed, 1])
    width, head = policy.network["hidden"][-1], policy.tensors["policy.head.weight"]

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.7, shape).astype(np.float32)

    recurrent = {
        "policy.gru.weight_ih": drawn(3 * size, width),
        "policy.gru.weight_hh": drawn(3 * size, size),
        "policy.gru.bias_ih": drawn(3 * size),
        "policy.gru.bias_hh": drawn(3 * size),
        "policy.head.weight": drawn(len(head), size),
    }
    network = {**policy.network, "recurrent": {"cell": "gru", "size": size}}
    return replace(policy, network=network, tensors={**policy.tensors, **recurrent})


def all_with_memory(container: WeightsContainer) -> WeightsContainer:
    """The container with a memory in each policy."""
    policies = {
        name: with_memory(policy, seed=index)
        for index, (name, policy) in enumerate(container.policies.items())
    }
    return replace(container, policies=policies)


def step(policy: PolicyWeights, seen: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of the head for one raw observation, and the memory after it, in float64."""
    t = {name: array.astype(np.float64) for name, array in policy.tensors.items()}
    x = seen.astype(np.float64).reshape(-1)
    if "observation.mean" in t:
        mean, variance = (t[f"observation.{name}"].reshape(-1) for name in ("mean", "var"))
        x = (x - mean) / np.sqrt(variance + 1e-8)
        x = np.clip(x, -policy.observation_clip, policy.observation_clip)  # type: ignore[operator, type-var]
    for i in range(len(policy.network["hidden"])):
        x = np.tanh(t[f"policy.layers.{i}.weight"] @ x + t[f"policy.layers.{i}.bias"])
    seen_r, seen_z, seen_n = np.split(t["policy.gru.weight_ih"] @ x + t["policy.gru.bias_ih"], 3)
    kept_r, kept_z, kept_n = np.split(t["policy.gru.weight_hh"] @ memory + t["policy.gru.bias_hh"], 3)
    reset, update = (1 / (1 + np.exp(-(a + b))) for a, b in ((seen_r, kept_r), (seen_z, kept_z)))
    after = (1 - update) * np.tanh(seen_n + reset * kept_n) + update * memory
    return t["policy.head.weight"] @ after + t["policy.head.bias"], after
