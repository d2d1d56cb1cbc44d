"""The network of a job of one agent."""

import math
from collections.abc import Sequence

from nitro_actor.protocol.agents import AgentClass
from nitro_api.spec.network import ImageTooSmall, Network, image_sizes
from nitro_learner.networks.actor_critic import ActorCritic
from nitro_learner.networks.images import Image


class NetworkMisfit(Exception):  # noqa: N818
    """The environment's observations do not fit the job's network; the message says what to change."""


def network_of(network: Network, agent_class: AgentClass, environment: str) -> ActorCritic:
    """The policy and the critic of the only agent of an environment.

    Args:
        network: resolved.
        one: the agent's class.
        environment: its id.

    Raises:
        NetworkMisfit: the observations do not fit the network.
    """
    shape = agent_class.observation["shape"]
    inputs = _image(network, shape, environment) if network.type == "conv" else math.prod(shape)
    return ActorCritic(inputs, inputs, network, agent_class.action, alone=True)


def _image(network: Network, shape: Sequence[int], environment: str) -> Image:
    """The observation as an image that the convolutions fit."""
    if len(shape) not in (2, 3):
        raise NetworkMisfit(
            "spec.network.type: conv needs images of shape [height, width] or [height, width, channels]; the "
            f"observations of {environment} have {list(shape)}. Set it to mlp"
        )
    image = Image(shape[0], shape[1], shape[2] if len(shape) == 3 else 1)
    try:
        image_sizes(image.height, image.width, network.conv_layers or ())
    except ImageTooSmall as error:
        raise NetworkMisfit(
            f"spec.network.convLayers[{error.layer}] {error}, with observations of {list(shape)}. "
            "Give layers that fit, the channels last"
        ) from error
    return image
