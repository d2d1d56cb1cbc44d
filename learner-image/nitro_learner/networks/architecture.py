"""The network of a job of one agent, and its description in the weights."""

import math
from collections.abc import Sequence
from typing import Any

from nitro_actor.actions import action_space
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_api.spec.network import ImageTooSmall, image_sizes
from nitro_learner.networks.actor_critic import ActorCritic
from nitro_learner.networks.images import Image


class NetworkMisfit(Exception):  # noqa: N818
    """The environment's observations do not fit the job's network; the message says what to change."""


def network_of(spec: JobSpec, environment: DescribedEnvironment) -> ActorCritic:
    """The policy and the critic of a job of one agent.

    Args:
        spec: resolved.
        environment: of the actors, of one agent.

    Raises:
        NetworkMisfit: the environment's observations do not fit spec.network.
    """
    shape = environment.one.observation["shape"]
    inputs = _image(spec, shape) if spec.network.type == "conv" else math.prod(shape)
    return ActorCritic(inputs, inputs, spec.network, environment.one.action, alone=True)


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
