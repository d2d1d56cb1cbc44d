"""spec.network: what the policy and the critic are, and the sizes of images inside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from nitro_api.base import Model
from nitro_api.spec.free_json import FreeJson, with_floats

NetworkType = Literal["mlp", "conv", "own"]
Units = Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(max_length=8)]
Activation = Literal["tanh", "relu"]
LogStd = Literal["state", "parameter"]


class ConvLayer(Model):
    """One convolution with square filters, followed by the activation."""

    channels: Annotated[int, Field(ge=1, le=2048)]
    """Filters, which are the layer's output channels."""

    kernel: Annotated[int, Field(ge=1, le=64)]
    """Height and width of a filter. Unit: pixels of the layer's input."""

    stride: Annotated[int, Field(ge=1, le=64)] = 1
    """Step between two places of a filter. Unit: pixels of the layer's input. Default: 1."""

    padding: Literal["same", "valid"] = "valid"
    """`valid`: only whole filters inside the image. `same`: zeros around the image, so that the output is the
    input divided by the stride, rounded up. Default: valid."""


class Recurrent(Model):
    """A recurrent layer, the memory of a policy and of its critic, or of a Q-network."""

    cell: Literal["gru"] = "gru"
    """The layer: `gru` is the gated recurrent unit of Cho et al. (2014). Default: gru."""

    hidden_size: Annotated[int, Field(ge=1, le=4096)] = 64
    """Units of the layer, the numbers that an agent remembers from one step to the next. Default: 64."""


class GivenNetwork(Model):
    """Policy and critic, two networks of the same shape."""

    type: NetworkType | None = None
    """`mlp`: hidden layers alone, on the observation as one vector. `conv`: convolutions, then hidden layers;
    the observation must be an image, [height, width] or [height, width, channels]. Pixels of uint8 are
    divided by 255, unless they are normalised. `own`: a module of yours, which entryPoint names. Default: own
    with entryPoint, conv for Atari games (ids that begin with ALE/) and where convLayers is given, otherwise
    mlp."""

    conv_layers: Annotated[list[ConvLayer], Field(min_length=1, max_length=8)] | None = None
    """Convolutions, the first one first. Only with type: conv. Default: with `paper` the Nitro paper's, 16
    filters of 8 x 8 with stride 4, 32 of 4 x 4 with stride 2 (both `same`) and 256 of 11 x 11 (`valid`); with
    `tuned` those of Mnih et al. (2015), 32 of 8 x 8 with stride 4, 64 of 4 x 4 with stride 2, 64 of 3 x 3."""

    hidden_sizes: Units | None = None
    """Units of each hidden layer; with type: conv those behind the convolutions, which may be none. None with
    type: own. Default: the preset's."""

    activation: Activation | None = None
    """Activation of all layers but the last. Default: the preset's."""

    log_std: LogStd | None = None
    """Whether the logarithm of the action's deviation is an output of the policy (`state`) or a free
    parameter per action dimension (`parameter`). Continuous actions only. Default: the preset's."""

    recurrent: Recurrent | None = None
    """A recurrent layer behind the hidden layers of the policy, and one behind those of its critic. With it
    actions may depend on earlier observations of the episode. Only with type: mlp, and with the algorithms
    ppo, ippo, mappo, iql, vdn and qmix. Default: none, actions depend on the present observation alone."""

    entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """Network of your own as `module:Class`, a torch.nn.Module. The learner makes it from an observation's
    shape and the number of outputs; the actors play it without torch, and need onnxruntime. The module must
    be importable in the learner's image. Only with algorithm ppo. Default: none."""

    critic_entry_point: Annotated[str, Field(min_length=3, max_length=253)] | None = None
    """The critic's module, made with one output. Only with entryPoint. Default: entryPoint."""

    settings: (
        Annotated[dict[str, Any], Field(max_length=64), FreeJson(levels=2), AfterValidator(with_floats)]
        | None
    ) = None
    """Keyword arguments of both modules, behind the shape and the number of outputs: any JSON of at most 2
    levels of mappings and lists, settings itself the first. The API server stores 1.0 as 1; {$float: 1}
    arrives as 1.0 everywhere. Only with entryPoint. Default: none."""

    @property
    def memory_size(self) -> int:
        """The numbers that an agent remembers from one step to the next; 0 without a recurrent layer."""
        return 0 if self.recurrent is None else self.recurrent.hidden_size


class Network(GivenNetwork):
    """The networks of a resolved job."""

    type: NetworkType
    hidden_sizes: Units
    activation: Activation
    log_std: LogStd


class ImageTooSmall(ValueError):  # noqa: N818
    """A filter is larger than the image that reaches it.

    Attributes:
        layer: which one, from 0.
    """

    def __init__(self, layer: int, kernel: int, height: int, width: int) -> None:
        super().__init__(
            f"has filters of {kernel} x {kernel}, but the image that reaches it is {height} x {width}"
        )
        self.layer = layer


def image_sizes(height: int, width: int, layers: Sequence[ConvLayer]) -> list[tuple[int, int]]:
    """Height and width behind each layer.

    Raises:
        ImageTooSmall: nothing would be left of the image.
    """
    sizes = []
    for index, layer in enumerate(layers):
        if layer.padding == "valid" and min(height, width) < layer.kernel:
            raise ImageTooSmall(index, layer.kernel, height, width)
        trimmed = layer.kernel - 1 if layer.padding == "valid" else 0
        height, width = (math.ceil((n - trimmed) / layer.stride) for n in (height, width))
        sizes.append((height, width))
    return sizes
