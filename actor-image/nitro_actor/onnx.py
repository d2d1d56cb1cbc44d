"""A policy's network of the user's own, played by onnxruntime.

The learner exports the module once as a skeleton: an ONNX file of a few KB whose tensors are elsewhere, in
the weights. Each version's tensors are given to onnxruntime with it, so they are constants to it, and as
quick as constants. onnxruntime is an extra, and is loaded by the first policy that needs it.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from nitro_actor import wire
from nitro_actor.matmul import Floats

KIND = "own"
SKELETON = "skeleton"
"""The tensor with the ONNX file, u8 [n]."""
PREFIX = "policy.own."
"""How the names of the module's tensors begin in the weights, and in the ONNX file."""
INSTALL = (
    "in a checkout run pip install './actor-image[onnx]', on a cluster take an actor image made by "
    "`make images ACTOR_EXTRAS=onnx`"
)


class NoOnnxruntime(wire.WireError):
    """onnxruntime is not installed here."""


class OnnxNetwork:
    """See `nitro_actor.networks.Network`. What it gives are the head's outputs.

    Network metadata: {"outputs": n, "tensors": {name: [dtype, shape]}}; tensors skeleton, and policy.own.*
    as `tensors` says.
    """

    def __init__(self, network: Mapping[str, Any], tensors: Mapping[str, np.ndarray], shape: Sequence[int]):
        self.width = network["outputs"]
        self._shape = tuple(shape)
        own = {name: array for name, array in tensors.items() if name.startswith(PREFIX)}
        self._made_of = network, {SKELETON: tensors[SKELETON], **own}, shape
        self._session = session(tensors[SKELETON].tobytes(), own)
        (taken,) = self._session.get_inputs()
        self._input = taken.name
        self._dtype = np.uint8 if taken.type == "tensor(uint8)" else np.float32

    @staticmethod
    def parameters(
        network: Mapping[str, Any],
        shape: Sequence[int],  # noqa: ARG004
    ) -> tuple[dict[str, wire.TensorSpec], int]:
        """Names and shapes of the tensors, and how many numbers it gives.

        Raises:
            WireError: the description is wrong.
        """
        outputs, tensors = network.get("outputs"), network.get("tensors")
        if type(outputs) is not int or outputs < 1 or not isinstance(tensors, dict):
            raise wire.WireError(f"weights: network {KIND} needs outputs, a width, and tensors, a mapping")
        specs = {SKELETON: wire.TensorSpec("uint8", (None,))}
        for name, (dtype, sizes) in tensors.items():
            specs[f"{PREFIX}{name}"] = wire.TensorSpec(dtype, tuple(sizes))
        return specs, outputs

    def __call__(self, observations: np.ndarray) -> Floats:
        rows = observations.reshape(-1, *self._shape).astype(self._dtype, copy=False)
        (result,) = self._session.run(None, {self._input: np.ascontiguousarray(rows)})
        outputs: Floats = result
        return outputs

    def __reduce__(self) -> tuple[type["OnnxNetwork"], tuple[Any, ...]]:
        # onnxruntime's session cannot be copied, nor pickled.
        return OnnxNetwork, self._made_of


def session(skeleton: bytes, tensors: Mapping[str, np.ndarray]) -> Any:
    """onnxruntime's session of a skeleton with these tensors, of one thread.

    Raises:
        NoOnnxruntime: it is not installed.
        WireError: the file or a tensor is wrong.
    """
    ort = _onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what fails is raised
    values = [ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C")) for array in tensors.values()]
    try:
        if values:
            options.add_external_initializers(list(tensors), values)
        return ort.InferenceSession(skeleton, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        raise wire.WireError(f"weights: onnxruntime refuses the policy's own network: {error}") from error


@cache
def _onnxruntime() -> Any:
    # Before the import: it would write files to the home directory, and start a thread.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        return importlib.import_module("onnxruntime")
    except ModuleNotFoundError as error:
        raise NoOnnxruntime(
            "weights: a network of the user's own (spec.network.entryPoint) needs the package onnxruntime, "
            f"which this actor lacks; {INSTALL}"
        ) from error
