"""The policy's networks in numpy, for a few observations at a time.

A new kind of network is a class with `parameters` and `__call__` like these, and an entry in `NETWORKS`.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nitro_actor import onnx, wire
from nitro_actor.convolution import Convolution, Shape
from nitro_actor.matmul import Floats, product
from nitro_actor.scratch import Scratch

Tensors = Mapping[str, np.ndarray]
Specs = dict[str, wire.TensorSpec]

ACTIVATIONS: dict[str, Callable[..., Floats]] = {
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, np.float32(0), out=out),
}


class Network(Protocol):
    """Observations f32 or u8 [E, *shape] -> features f32 [E, width]. The thread's next call may overwrite
    them."""

    width: int

    def __call__(self, observations: np.ndarray) -> Floats: ...


class Mlp:
    """Fully connected layers with one activation.

    Network metadata: {"hidden": [widths], "activation": "tanh" | "relu"}; tensors policy.layers.{i}.weight
    (out, in) and policy.layers.{i}.bias, f32. Where the tensors are those of p policies, [p, ...], so are the
    observations, [p, n, D].
    """

    def __init__(self, network: Mapping[str, Any], tensors: Tensors, shape: Sequence[int]) -> None:
        self.width = int([math.prod(shape), *network["hidden"]][-1])
        self._activation = ACTIVATIONS[network["activation"]]
        self._layers = [linear(tensors, f"policy.layers.{i}") for i in range(len(network["hidden"]))]
        self._axes = self._layers[0][0].ndim - 1 if self._layers else 1  # that lead in observations
        self._scratch = Scratch()

    @staticmethod
    def parameters(network: Mapping[str, Any], shape: Sequence[int]) -> tuple[Specs, int]:
        """Names and shapes of the tensors, and the width of the features.

        Raises:
            WireError: the description is wrong.
        """
        if not network["hidden"]:
            raise wire.WireError("weights: hidden [] must be a list of at least one width")
        return _layers(network, math.prod(shape))

    def __call__(self, observations: np.ndarray) -> Floats:
        shape, scratch = observations.shape, self._scratch
        if scratch.key != shape:
            rows = shape[: self._axes]
            scratch.key, scratch.arrays = shape, []
            for weight, bias in self._layers:
                buffer = np.empty((*rows, bias.shape[-1]), np.float32)
                scratch.arrays.append((product(weight, rows[0]), bias, buffer))
        if len(shape) != self._axes + 1:  # single numbers, or frames
            observations = observations.reshape(*shape[: self._axes], -1)
        features: Floats = observations.astype(np.float32, copy=False)
        for multiply, bias, buffer in scratch.arrays:
            multiply(features, buffer)
            np.add(buffer, bias, out=buffer)
            features = self._activation(buffer, out=buffer)
        return features


class Conv:
    """Convolutions, then fully connected layers (which may be none), all with one activation.

    Network metadata: as Mlp's, and {"convolutions": [{"channels", "kernel", "stride", "padding": "same" |
    "valid"}]}; tensors also policy.convolutions.layers.{i}.weight (channels, channels before, kernel, kernel)
    and .bias. Observations are images [height, width(, channels)]; u8 pixels are divided by 255.
    """

    def __init__(self, network: Mapping[str, Any], tensors: Tensors, shape: Sequence[int]) -> None:
        self._shape = _image(shape)
        activation = ACTIVATIONS[network["activation"]]
        self._layers: list[Convolution] = []
        for index, (image, layer) in enumerate(_images(network, self._shape)):
            weight, bias = (
                tensors[f"policy.convolutions.layers.{index}.{name}"] for name in ("weight", "bias")
            )
            self._layers.append(Convolution(image, layer, weight, bias, activation, first=index == 0))
        last = self._layers[-1].output
        self._dense = Mlp(network, tensors, (last.size,))
        self.width = self._dense.width

    @staticmethod
    def parameters(network: Mapping[str, Any], shape: Sequence[int]) -> tuple[Specs, int]:
        """Names and shapes of the tensors, and the width of the features, as for Mlp."""
        specs: Specs = {}
        image = _image(shape)
        for index, (before, layer) in enumerate(_images(network, image)):
            kernel, name = layer["kernel"], f"policy.convolutions.layers.{index}"
            weight = (layer["channels"], before.channels, kernel, kernel)
            specs[f"{name}.weight"] = wire.TensorSpec("float32", weight)
            specs[f"{name}.bias"] = wire.TensorSpec("float32", (layer["channels"],))
            image = before.behind(layer)
        dense, width = _layers(network, image.size)
        return specs | dense, width

    def __call__(self, observations: np.ndarray) -> Floats:
        height, width, channels = self._shape
        # Stacks of frames are views of [E, channels, height, width], which the first layer reads fastest.
        images = observations.reshape(len(observations), height, width, channels).transpose(0, 3, 1, 2)
        for layer in self._layers:
            images = layer(images)
        # [E, height, width, channels], in the learner's order.
        return self._dense(images.transpose(0, 3, 1, 2))


NETWORKS: dict[str, type[Mlp] | type[Conv] | type[onnx.OnnxNetwork]] = {
    "mlp": Mlp,
    "conv": Conv,
    onnx.KIND: onnx.OnnxNetwork,
}


def linear(tensors: Tensors, name: str) -> tuple[Floats, Floats]:
    """The weight (in, out), contiguous because that is fastest for products of few rows, and the bias; of p
    policies [p, in, out] and [p, 1, out]."""
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return np.ascontiguousarray(weight.swapaxes(-1, -2)), bias if bias.ndim == 1 else bias[:, None]


def linear_parameters(name: str, fan_in: int, fan_out: int) -> Specs:
    """Names and shapes of the tensors of one fully connected layer."""
    return {
        f"{name}.weight": wire.TensorSpec("float32", (fan_out, fan_in)),
        f"{name}.bias": wire.TensorSpec("float32", (fan_out,)),
    }


def _layers(network: Mapping[str, Any], inputs: int) -> tuple[Specs, int]:
    widths = [inputs, *network["hidden"]]
    specs = {
        name: spec
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths))
        for name, spec in linear_parameters(f"policy.layers.{i}", fan_in, fan_out).items()
    }
    return specs, widths[-1]


def _image(shape: Sequence[int]) -> Shape:
    if len(shape) not in (2, 3):
        raise wire.WireError(f"weights: convolutions for observations of shape {list(shape)}, no images")
    return Shape(shape[0], shape[1], shape[2] if len(shape) == 3 else 1)


def _images(network: Mapping[str, Any], image: Shape) -> list[tuple[Shape, Mapping[str, Any]]]:
    """Each convolution with the image that it sees."""
    layers = network.get("convolutions")
    if not isinstance(layers, list) or not layers:
        raise wire.WireError(f"weights: convolutions {layers!r} must be a list of at least one layer")
    result = []
    for layer in layers:
        numbers = (
            [layer.get(name) for name in ("channels", "kernel", "stride")] if isinstance(layer, dict) else []
        )
        if not numbers or not all(type(n) is int and n > 0 for n in numbers):
            raise wire.WireError(f"weights: convolution {layer!r} needs whole channels, kernel and stride")
        if layer.get("padding") not in ("same", "valid"):
            raise wire.WireError(f"weights: convolution {layer!r} needs a padding, same or valid")
        result.append((image, layer))
        image = image.behind(layer)
        if min(image.height, image.width) < 1:
            raise wire.WireError(f"weights: convolution {layer!r} is larger than its image")
    return result
