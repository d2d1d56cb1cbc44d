"""Policies as networks that other programs run: ONNX and torch.export."""

import io
import json
import logging
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from nitro_actor.actions import action_space
from nitro_actor.masks import choices
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.deployment.export.policy_module import PolicyModule, RecurrentPolicyModule

OPSET = 18
"""Version of ONNX's operators. The file has the format of ONNX 1.16, for onnxruntime 1.18 and later."""
_EXPORTING = threading.Lock()
"""torch.export and the silence that is needed are of the whole process, so one thread exports at a time."""


def as_onnx(policy: TrainedPolicy) -> dict[str, bytes]:
    """An ONNX model for each agent, for any batch size. Inputs are named as those of `PolicyModule.forward`,
    outputs `action` and `distribution`, and `next_state` of a policy with a memory."""
    files = {}
    for agent in policy.agents:
        module, inputs = _module(policy, agent)
        with _EXPORTING, _quietly():
            program = torch.onnx.export(
                _exported(module, inputs),
                (),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=["action", "distribution", *(["next_state"] if policy.memory[agent] else [])],
                verbose=False,
            )
        assert program is not None
        model = program.model_proto
        _name_batch(model.graph)
        for key, value in _about(policy, agent).items():
            model.metadata_props.add(key=key, value=value)
        files[f"{_stem(policy, agent)}.onnx"] = model.SerializeToString()
    return files


def as_torch(policy: TrainedPolicy) -> dict[str, bytes]:
    """A program of torch.export for each agent: `torch.export.load(FILE).module()(observations)`."""
    files = {}
    for agent in policy.agents:
        buffer = io.BytesIO()
        module, inputs = _module(policy, agent)
        with _EXPORTING:
            torch.export.save(_exported(module, inputs), buffer, extra_files=_about(policy, agent))
        files[f"{_stem(policy, agent)}.pt2"] = buffer.getvalue()
    return files


def takes_available(policy: TrainedPolicy, agent: str) -> bool:
    """Whether the agent's module takes the choices of its action that are available: where they are masked,
    and of several agents always where they are Discrete."""
    action = policy.of(agent).action
    several = policy.described.several
    return bool(action.get("masked")) or (several and bool(action["kind"] == "discrete"))


def _module(policy: TrainedPolicy, agent: str) -> tuple[PolicyModule, dict[str, torch.Tensor]]:
    """The agent's module, and an example of what it takes."""
    spaces = policy.of(agent)
    made = RecurrentPolicyModule if policy.memory[agent] else PolicyModule
    module = made(policy.weights.policies[policy.weights.agents[agent]], spaces, agent)
    dtype = torch.uint8 if spaces.observation["dtype"] == "uint8" else torch.float32
    # Two rows: torch.export takes a size of one for a constant.
    inputs = {"observation": torch.zeros(2, *spaces.observation["shape"], dtype=dtype)}
    if policy.memory[agent]:
        inputs["state"] = torch.zeros(2, policy.memory[agent])
    if takes_available(policy, agent):
        inputs["available"] = torch.ones(2, choices(action_space(spaces.action)), dtype=torch.bool)
    return module.eval(), inputs


def _exported(module: PolicyModule, inputs: Mapping[str, torch.Tensor]) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(
        module, tuple(inputs.values()), dynamic_shapes={name: {0: batch} for name in inputs}
    )


def _name_batch(graph: Any) -> None:
    """Call the first axis `batch`. The exporter gives it a name of its own, such as s18."""
    axes = [
        axis
        for value in (*graph.input, *graph.output, *graph.value_info)
        for axis in value.type.tensor_type.shape.dim
        if axis.dim_param
    ]
    chosen = re.compile(rf"\b{re.escape(axes[0].dim_param)}\b")  # others may be made from it, such as 2*s18
    for axis in axes:
        axis.dim_param = chosen.sub("batch", axis.dim_param)


def _stem(policy: TrainedPolicy, agent: str) -> str:
    return "policy" if len(policy.agents) == 1 else agent


def _about(policy: TrainedPolicy, agent: str) -> dict[str, str]:
    """What a file says of itself."""
    spaces = policy.of(agent)
    return {
        "nitro.agent": agent,
        "nitro.round": str(policy.round),
        "nitro.environment": policy.described.id,
        "nitro.observation": json.dumps(spaces.observation),
        "nitro.action": json.dumps(spaces.action),
    }


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the exporter about packages that no policy needs."""
    logger: Any = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
