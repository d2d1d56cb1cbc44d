"""A module of the user's own as what actors need of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from nitro_actor import onnx as played
from nitro_actor.actions import action_space
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_api.spec.network import LogStd
from nitro_learner.networks.own import skeleton as own


def outputs_of(action: Mapping[str, Any], log_std: LogStd) -> int:
    """How many numbers a policy's network gives for each observation: the parameters of the distribution of
    actions, without a log-std that does not depend on the observation."""
    space = action_space(action)
    return space.outputs * (2 if space.head == "gaussian" and log_std == "state" else 1)


def seen_dtype(agents: AgentClass, *, normalised: bool) -> torch.dtype:
    """Of the observations that a network gets: bytes only as the environment gives them."""
    raw = agents.observation["dtype"] == "uint8" and not normalised
    return torch.uint8 if raw else torch.float32


def made(
    module: nn.Module, agents: AgentClass, *, log_std: LogStd = "state", normalised: bool = False
) -> bytes:
    """The skeleton of a policy's module, tried and compared; see `nitro_learner.networks.own.skeleton`.

    Args:
        module: in evaluation mode.
        agents: the class of the only agent.
        log_std: whether it gives the log-std of continuous actions.
        normalised: whether it gets standardised observations.

    Raises:
        Unfit: it cannot be a policy's network; the message says why, where, and what to do.
    """
    shape, dtype = agents.observation["shape"], seen_dtype(agents, normalised=normalised)
    own.check(module, shape, dtype, outputs_of(agents.action, log_std))
    skeleton = own.exported(module, shape, dtype)
    own.compare(module, skeleton, shape, dtype)
    return skeleton


def description(
    module: nn.Module, skeleton: bytes, agents: AgentClass, log_std: LogStd = "state"
) -> dict[str, Any]:
    """The weights container's `network` of a module."""
    used = own.used_names(skeleton)
    tensors = {
        name: [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
        for name, tensor in own.named_tensors(module).items()
        if name in used
    }
    head = action_space(agents.action).network()
    outputs = outputs_of(agents.action, log_std)
    return {"kind": played.KIND, "outputs": outputs, "tensors": tensors, "logStd": log_std, **head}


def weights(module: nn.Module, skeleton: bytes, agents: AgentClass) -> PolicyWeights:
    """What actors need to play a module with its present tensors, as copies. It gives the log-std of
    continuous actions, and sees observations as the environment gives them.

    Args:
        skeleton: what `made` gave for a module of this class and shape.
    """
    file = {played.SKELETON: np.frombuffer(skeleton, np.uint8)}
    return PolicyWeights(description(module, skeleton, agents), file | own.arrays_of(module, skeleton))
