"""How far the actions of an untrained policy reach, against the bounds of the environment's actions.

Every policy begins with a mean near 0 and a standard deviation of 1. It learns from what it tries, so bounds
that it hardly reaches leave it where it began.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nitro_actor.environment import bounds_finite
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment

_REACH = 2.0
"""Standard deviations on either side of 0: 95 % of the first actions."""
_LEAST_REACHED = 0.5
"""Share of the range between the bounds that lies within `_REACH`. Of -3 to 3, InvertedPendulum's, it is
0.67."""
_LEAST_INSIDE = 0.1
"""Share of the first actions that lies between the bounds. Of -0.4 to 0.4, Humanoid's, it is 0.31."""


def warnings(environment: DescribedEnvironment) -> list[str]:
    """A warning for each class of agents whose first policy hardly reaches the bounds of its actions, or lies
    beyond them nearly always.

    Args:
        environment: of the actors.
    """
    sentences = []
    for agent_class in environment.classes:
        if agent_class.action["kind"] != "continuous" or agent_class.action.get("rescaled"):
            continue
        bounds = list(zip(agent_class.action["low"], agent_class.action["high"], strict=True))
        wrong = list(_far(bounds))
        if wrong:
            owner = "" if agent_class.name == AGENT else f" of {agent_class.name}"
            sentences.append(_sentence(owner, len(bounds), wrong))
    return sentences


def _far(bounds: list[tuple[float | None, float | None]]) -> Iterator[tuple[int, float, float, str]]:
    """The numbers of an action whose bounds are far from the first policy: index, bounds and what follows."""
    for index, (low, high) in enumerate(bounds):
        if not bounds_finite(low, high):
            continue
        assert low is not None
        assert high is not None
        inside = _below(high) - _below(low)
        reached = max(0.0, min(high, _REACH) - max(low, -_REACH)) / (high - low) if high > low else 1.0
        if reached < _LEAST_REACHED:
            yield index, low, high, f"which reach {_percent(reached)} of that range"
        elif high > low and inside < _LEAST_INSIDE:
            yield (
                index,
                low,
                high,
                f"of which {_percent(inside)} lie between and all others are cut to a bound",
            )


def _sentence(owner: str, size: int, wrong: list[tuple[int, float, float, str]]) -> str:
    index, low, high, what = wrong[0]
    others = f" ({len(wrong)} of its {size} numbers are so)" if len(wrong) > 1 else ""
    return (
        f"spec.environment.rescaleActions: actions[{index}]{owner} goes from {low:g} to {high:g}{others}, "
        "but the first policy's actions are around 0 with a standard deviation of 1, so most of them lie "
        f"from {-_REACH:g} to {_REACH:g}, {what}; set rescaleActions: true, with which the policy's -1 to 1 "
        "stand for the bounds"
    )


def _below(bound: float) -> float:
    """The share of a standard normal distribution below a bound."""
    return 0.5 * (1 + math.erf(bound / math.sqrt(2)))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
