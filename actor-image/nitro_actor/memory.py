"""The memory of policies in numpy: a recurrent layer, and what it remembers between steps and between rounds.

A network's description with a memory has {"recurrent": {"cell": "gru", "size": H}}. Its tensors have the
names and the order of gates of torch.nn.GRU: policy.gru.weight_ih (3 H, features), policy.gru.weight_hh
(3 H, H), policy.gru.bias_ih and policy.gru.bias_hh (3 H).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nitro_actor import wire
from nitro_actor.matmul import Floats

CELL = "gru"
_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Gru:
    """Gated recurrent units (Cho et al. 2014), in PyTorch's form:

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r (W_hn h + b_hn))
    h = (1 - z) n + z h
    """

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        """
        Args:
            tensors: of a policy; or of p policies, with a leading axis.
        """
        ih, hh, bias_ih, bias_hh = (tensors[f"policy.gru.{part}"] for part in _PARTS)
        self._ih, self._hh = (np.ascontiguousarray(weight.swapaxes(-1, -2)) for weight in (ih, hh))
        self._bias_ih, self._bias_hh = bias_ih[..., None, :], bias_hh[..., None, :]

    def __call__(self, features: Floats, memory: Floats) -> Floats:
        """Return the memory after a step, which is also the layer's output.

        Args:
            features: x, f32 [n, I] or [p, n, I].
            memory: h before the step, f32 [n, H] or [p, n, H].
        """
        size = memory.shape[-1]
        seen = features @ self._ih
        seen += self._bias_ih
        kept = memory @ self._hh
        kept += self._bias_hh
        gates = seen[..., : 2 * size] + kept[..., : 2 * size]
        gates *= np.float32(0.5)  # sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow
        np.tanh(gates, out=gates)
        gates += np.float32(1)
        gates *= np.float32(0.5)
        new = kept[..., 2 * size :]
        new *= gates[..., :size]
        new += seen[..., 2 * size :]
        np.tanh(new, out=new)
        result: Floats = new + gates[..., size:] * (memory - new)
        return result


def memory_size(network: Mapping[str, Any]) -> int:
    """Numbers that an agent of a policy remembers; 0 without a recurrent layer.

    Raises:
        WireError: the network's description is wrong.
    """
    recurrent = network.get("recurrent")
    if recurrent is None:
        return 0
    size = recurrent.get("size") if isinstance(recurrent, dict) else None
    if type(size) is not int or size < 1 or recurrent.get("cell") != CELL:
        raise wire.WireError(f"weights: recurrent {recurrent!r} needs the cell {CELL} and a positive size")
    return size


def memory_parameters(network: Mapping[str, Any], width: int) -> tuple[dict[str, wire.TensorSpec], int]:
    """Names and shapes of the recurrent layer's tensors, and the number of features behind it.

    Args:
        width: features before it.

    Raises:
        WireError: the description is wrong.
    """
    size = memory_size(network)
    shapes = ((3 * size, width), (3 * size, size), (3 * size,), (3 * size,))
    specs = {
        f"policy.gru.{part}": wire.TensorSpec("float32", shape)
        for part, shape in zip(_PARTS, shapes, strict=True)
    }
    return (specs, size) if size else ({}, width)


def recall(state: Mapping[str, np.ndarray], memories: Mapping[str, Floats]) -> dict[str, np.ndarray]:
    """Take the memories out of an end state, and return the rest of it.

    Args:
        state: of the last fragment.
        memories: by their names there, written in place; those without numbers are in no state.

    Raises:
        WireError: the state lacks a memory, or has one of another shape.
    """
    sized = {name: memory for name, memory in memories.items() if memory.shape[-1]}
    saved = {name: array for name, array in state.items() if name in sized}
    wire.check(saved, {name: wire.TensorSpec("float32", memory.shape) for name, memory in sized.items()})
    for name, memory in sized.items():
        memory[...] = saved[name]
    return {name: array for name, array in state.items() if name not in sized}


def with_memories(state: Mapping[str, np.ndarray], memories: Mapping[str, Floats]) -> dict[str, np.ndarray]:
    """An environment's end state with copies of the memories in it; an empty one stays empty."""
    if not state:
        return {}
    return dict(state) | {name: memory.copy() for name, memory in memories.items() if memory.shape[-1]}
