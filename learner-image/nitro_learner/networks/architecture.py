"""The networks of a job and its environment: ActorCritic's arguments, and the description in the weights."""

import math
from collections.abc import Sequence
from typing import Any

from nitro_actor.actions import action_space
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_api.spec.network import ImageTooSmall, image_sizes
from nitro_learner.networks.images import Image


class NetworkMisfit(Exception):  # noqa: N818
    """The environment's observations do not fit the job's network; the message says what to change."""


def arguments(spec: JobSpec, environment: DescribedEnvironment) -> dict[str, Any]:
    """The arguments of `ActorCritic`, without initialisation and device.

    Args:
        spec: resolved.
        environment: of the actors, of one agent.

    Raises:
        NetworkMisfit: the environment's observations do not fit spec.network.
    """
    network, actions = spec.network, action_space(environment.one.action)
    shape = environment.one.observation["shape"]
    return {
        "inputs": _image(spec, shape) if network.type == "conv" else math.prod(shape),
        "convolutions": network.conv_layers or (),
        "hidden": list(network.hidden_sizes),
        "actions": actions.outputs,
        "activation": network.activation,
        "head": actions.head,
        "log_std": network.log_std,
    }


def _image(spec: JobSpec, shape: Sequence[int]) -> Image:
    """The observation as an image that the convolutions fit."""
    if len(shape) not in (2, 3):
        raise NetworkMisfit(
            "spec.network.type: conv needs images of shape [height, width] or [height, width, channels]; the "
            f"observations of {spec.environment.id} have {list(shape)}. Set it to mlp"
        )
    image = Image(shape[0], shape[1], shape[2] if len(shape) == 3 else 1)
    try:
        image_sizes(image.height, image.width, spec.network.conv_layers or ())
    except ImageTooSmall as error:
        raise NetworkMisfit(
            f"spec.network.convLayers[{error.layer}] {error}, with observations of {list(shape)}. "
            "Give layers that fit, the channels last"
        ) from error
    return image


def description(spec: JobSpec, environment: DescribedEnvironment) -> dict[str, Any]:
    """The weights container's `network`, from which actors build theirs."""
    network = spec.network
    described: dict[str, Any] = {
        "kind": network.type,
        "hidden": list(network.hidden_sizes),
        "activation": network.activation,
        **action_space(environment.one.action).network(),
        "logStd": network.log_std,
    }
    if network.conv_layers:
        described["convolutions"] = [layer.to_dict() for layer in network.conv_layers]
    return described
