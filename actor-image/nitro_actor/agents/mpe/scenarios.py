"""Which environments the engine computes."""

from collections.abc import Mapping

from nitro_actor.agents.mpe.adversary import Adversary
from nitro_actor.agents.mpe.scenario import Scenario
from nitro_actor.agents.mpe.spread import Spread
from nitro_actor.agents.mpe.tag import Tag

SCENARIOS: dict[str, type[Spread | Adversary | Tag]] = {
    "mpe2/simple_spread_v3": Spread,
    "mpe2/simple_adversary_v3": Adversary,
    "mpe2/simple_tag_v3": Tag,
}


def supports(environment: str, options: Mapping[str, object]) -> bool:
    """Whether the engine computes this environment with these keyword arguments."""
    scenario: type[Scenario] | None = SCENARIOS.get(environment)
    return scenario is not None and scenario.supports(options)
