"""Whole numbers in observations that float32 does not hold."""

from __future__ import annotations

from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.wire import EXACT_IN_FLOAT32


def warnings(environment: DescribedEnvironment) -> list[str]:
    """A warning for each class of agents whose observations may lose digits.

    Args:
        environment: of the actors.
    """
    sentences = []
    for agent_class in environment.classes:
        if "largest" in agent_class.observation:
            owner = "" if agent_class.name == AGENT else f" of {agent_class.name}"
            sentences.append(
                f"spec.environment: observations{owner} may hold whole numbers up to "
                f"{agent_class.observation['largest']}, but policies see float32, in which those beyond "
                f"{EXACT_IN_FLOAT32} lose their last digits; give the space the bounds that its values have, "
                "or scale or split them with gymnasium.wrappers.TransformObservation"
            )
    return sentences
