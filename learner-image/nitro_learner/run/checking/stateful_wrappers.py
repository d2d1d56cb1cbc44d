"""Wrappers of gymnasium that learn from every episode, and what to set in their place.

Each copy of an environment has its own, in each actor process. So what a policy sees depends on how many
processes there are and on what each of them has played, no end state holds it, and an evaluation begins
without it.
"""

from __future__ import annotations

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec

_SETTINGS = {
    "NormalizeObservation": ("normaliseObservations", "normalise_observations"),
    "NormalizeReward": ("normaliseRewards", "normalise_rewards"),
}
"""What does the same in the learner: a field of the hyperparameters, and its attribute."""


def warnings(environment: DescribedEnvironment, spec: JobSpec) -> list[str]:
    """A warning for each such wrapper.

    Args:
        environment: of the actors.
        spec: of a resolved job.
    """
    named = (name for name in environment.stateful_wrappers if name in _SETTINGS)
    return [_sentence(name, *_SETTINGS[name], spec) for name in named]


def _sentence(wrapper: str, field: str, attribute: str, spec: JobSpec) -> str:
    value = getattr(spec.algorithm.hyperparameters, attribute, None)
    instead = f"set {field}: true, whose statistics travel with the weights"
    if value:
        instead = f"{field}: true, whose statistics travel with the weights, is set already"
    elif value is None:
        instead = f"{spec.algorithm.name} has no {field}; ppo and impact have"
    return (
        f"spec.algorithm.hyperparameters.{field}: the environment has gymnasium.wrappers.{wrapper}, whose "
        "statistics go on from episode to episode, each copy's its own. So the results depend on the number "
        f"of actor processes, and evaluations begin without them; take the wrapper off, and {instead}"
    )
