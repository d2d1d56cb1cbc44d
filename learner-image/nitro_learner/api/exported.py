"""A policy in a safetensors file of its own, with all that playing it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors

from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.run.policy_file import KEY, policy_file


def write_exported(policy: TrainedPolicy) -> bytes:
    """The file of a policy; see `policy_file`."""
    weights = policy.weights
    played = {
        "version": weights.version,
        "environment": policy.environment,
        "agents": weights.agents,
        "policies": {
            name: {"meta": policy.meta, "tensors": policy.tensors}
            for name, policy in weights.policies.items()
        },
    }
    return policy_file(played, policy.round)


def read_exported(path: Path, seed: int | None) -> TrainedPolicy | None:
    """Read such a file; None if it is another one, such as a checkpoint.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        with safetensors.safe_open(path, "numpy") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                return None
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no mapping)
    except (safetensors.SafetensorError, OSError):
        return None  # whoever reads it as a checkpoint says what is wrong
    try:
        described = json.loads(text)
        policies: dict[str, Any] = {
            name: {"meta": meta, "tensors": {}} for name, meta in described["policies"].items()
        }
        for key, tensor in tensors.items():
            name, _, own = key.partition("/")
            policies[name]["tensors"][own] = tensor
        played = {name: described[name] for name in ("version", "environment", "agents")}
        return TrainedPolicy(played | {"policies": policies}, int(described["round"]), seed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: no policy can be read from it ({type(error).__name__}: {error})"
        ) from None
