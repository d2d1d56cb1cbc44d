"""The file of a trained policy: safetensors with all that playing it needs."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

EXPORTED = "policy.safetensors"
"""The usual name of such a file."""
KEY = "nitro-policy"
"""Of the metadata. Checkpoints have another one."""


def policy_file(played: Mapping[str, Any], round: int) -> bytes:
    """The file: tensors named POLICY/TENSOR, and the rest as JSON in the metadata.

    Args:
        played: what actors play, as a checkpoint's part of that name has it; see policy_set.py.
    """
    described = {
        "round": round,
        **{name: played[name] for name in ("version", "environment", "agents")},
        "policies": {name: policy["meta"] for name, policy in played["policies"].items()},
    }
    tensors = {
        f"{name}/{tensor}": np.asarray(array, order="C")
        for name, policy in played["policies"].items()
        for tensor, array in policy["tensors"].items()
    }
    return safetensors.numpy.save(tensors, {KEY: json.dumps(described)})
