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
    found = []
    for one in environment.classes:
        if "largest" in one.observation:
            owner = "" if one.name == AGENT else f" of {one.name}"
            found.append(
                f"spec.environment: observations{owner} may hold whole numbers up to "
                f"{one.observation['largest']}, but policies see float32, in which those beyond "
                f"{EXACT_IN_FLOAT32} lose their last digits; give the space the bounds that its values have, "
                "or scale or split them with gymnasium.wrappers.TransformObservation"
            )
    return found
