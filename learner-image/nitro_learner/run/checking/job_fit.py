"""What a job's user is told of an environment, beside what is wrong in it: how it fits the job's learning."""

import math
from collections.abc import Iterator

from nitro_actor.actions import bounds_finite
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.wire import EXACT_IN_FLOAT32
from nitro_api import JobSpec
from nitro_api.quantities import amount_of

_REACH = 2.0
"""Standard deviations on either side of 0: 95 % of the first actions."""
_LEAST_REACHED = 0.5
"""Share of the range between the bounds that lies within `_REACH`. Of -3 to 3, InvertedPendulum's, it is
0.67."""
_LEAST_INSIDE = 0.1
"""Share of the first actions that lies between the bounds. Of -0.4 to 0.4, Humanoid's, it is 0.31."""
_SETTINGS = {
    "NormalizeObservation": ("normaliseObservations", "normalise_observations"),
    "NormalizeReward": ("normaliseRewards", "normalise_rewards"),
}
"""What does the same in the learner: a field of the hyperparameters, and its attribute."""
_LEARNER_BYTES = 600 * 2**20
"""What a learner takes without a replay buffer: PyTorch is nearly all of it."""
_ROW_BYTES, _AGENT_BYTES = 8, 16
"""What a transition takes in a replay buffer beside observations and actions, in all and for each agent."""


def warnings(environment: DescribedEnvironment, spec: JobSpec, *, new: bool = True) -> list[str]:
    """Warnings, each a sentence that begins with the field that they concern.

    Args:
        new: whether the policies know nothing yet; others have learned with what they see and do.
    """
    told = [*stateful_wrappers(environment, spec), *large_buffer(environment, spec)]
    if not new:
        return told
    squashed = spec.algorithm.record.curvature == "q-value"  # into -1 to 1, which stand for the bounds
    return [*told, *([] if squashed else first_actions(environment)), *lost_digits(environment)]


def stateful_wrappers(environment: DescribedEnvironment, spec: JobSpec) -> list[str]:
    """A warning for each wrapper of gymnasium that learns from every episode, with what to set in its place.

    Each copy of an environment has its own, in each actor process. So what a policy sees depends on how many
    processes there are and on what each of them has played, no end state holds it, and an evaluation begins
    without it.
    """
    named = (name for name in environment.stateful_wrappers if name in _SETTINGS)
    return [_instead(name, *_SETTINGS[name], spec) for name in named]


def _instead(wrapper: str, field: str, attribute: str, spec: JobSpec) -> str:
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


def large_buffer(environment: DescribedEnvironment, spec: JobSpec) -> list[str]:
    """A warning where the learner's memory, if the job names it, has no room for a full replay buffer."""
    size = getattr(spec.algorithm.hyperparameters, "buffer_size", None)
    given = spec.learner.resources
    memory = (given.limits or {}).get("memory") or (given.requests or {}).get("memory")
    if size is None or memory is None:
        return []
    row = _ROW_BYTES
    for agent_class in environment.classes:
        seen, action = agent_class.observation, agent_class.action
        of_observation = math.prod(seen["shape"]) * (1 if seen["dtype"] == "uint8" else 4)
        of_action = 4 * action["size"] if action["kind"] == "continuous" else 8
        row += len(agent_class.agents) * (of_observation + of_action + _AGENT_BYTES)
    if size * row + _LEARNER_BYTES <= amount_of(memory):
        return []
    return [
        f"spec.algorithm.hyperparameters.bufferSize: a full replay buffer of {size:,} transitions takes "
        f"{size * row / 2**30:.1f} GiB, the learner itself about {_LEARNER_BYTES / 2**30:.1f}, and "
        f"spec.learner.resources gives it {memory}; lower bufferSize or raise the memory"
    ]


def first_actions(environment: DescribedEnvironment) -> list[str]:
    """A warning for each class of agents whose first policy hardly reaches the bounds of its actions, or lies
    beyond them nearly always.

    Every policy begins with a mean near 0 and a standard deviation of 1. It learns from what it tries, so
    bounds that it hardly reaches leave it where it began.
    """
    sentences = []
    for agent_class in environment.classes:
        if agent_class.action["kind"] != "continuous" or agent_class.action.get("rescaled"):
            continue
        bounds = list(zip(agent_class.action["low"], agent_class.action["high"], strict=True))
        wrong = list(_far(bounds))
        if wrong:
            owner = "" if agent_class.name == AGENT else f" of {agent_class.name}"
            sentences.append(_far_bounds(owner, len(bounds), wrong))
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


def _far_bounds(owner: str, size: int, wrong: list[tuple[int, float, float, str]]) -> str:
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


def lost_digits(environment: DescribedEnvironment) -> list[str]:
    """A warning for each class of agents whose observations may have whole numbers that float32 does not
    hold."""
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
