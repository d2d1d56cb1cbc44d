"""Checks of a fragment's values: its tensors must not contradict each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from nitro_actor import masks
from nitro_actor.actions import WholeNumbers, action_space
from nitro_actor.protocol.agents import AgentClass

Tensors = Mapping[str, NDArray[Any]]


def contradiction(tensors: Tensors, classes: Sequence[AgentClass]) -> str | None:
    """Say what is wrong with a rollout's tensors; None where nothing is.

    Args:
        tensors: as the message has them, their dtypes and shapes checked.
        classes: the environment's.
    """
    contradictions = (text for agent_class in classes for text in _of_class(tensors, agent_class))
    return next(contradictions, None) or next(_rows(tensors, ("final_global_state",)), None)


def _of_class(tensors: Tensors, agent_class: AgentClass) -> Iterator[str]:
    space = action_space(agent_class.action)
    if isinstance(space, WholeNumbers):
        actions = tensors[f"{agent_class.name}/actions"]
        if not ((actions >= 0) & (actions < space.counts)).all():
            yield f"{agent_class.name}/actions: an action outside 0..{(space.counts - 1).tolist()}"
            return
        if agent_class.action.get("masked"):
            available = tensors[f"{agent_class.name}/available"]
            if not masks.allow(available, space, actions):
                name = agent_class.name
                yield f"{name}/actions: an action that {name}/available does not allow"
    yield from _rows(
        tensors, (f"{agent_class.name}/final_observations", f"{agent_class.name}/final_available")
    )
    if agent_class.mortal:
        yield from _lives(tensors, agent_class.name)


def _rows(tensors: Tensors, names: Sequence[str]) -> Iterator[str]:
    """Whether a row stands for each truncated step."""
    cut = int((tensors["truncated"] & ~tensors["terminated"]).sum())
    for name in names:
        if name in tensors and len(tensors[name]) != cut:
            yield f"{name}: {len(tensors[name])} rows for {cut} truncated steps"


def _lives(tensors: Tensors, name: str) -> Iterator[str]:
    """Whether agents are born, act and die in a possible order."""
    alive, died = tensors[f"{name}/alive"], tensors[f"{name}/died"]
    terminated = tensors["terminated"][..., None]
    goes_on = alive & ~died & ~(terminated | tensors["truncated"][..., None])
    if (died & ~alive).any():
        yield f"{name}/died: an agent that was not alive"
    if (alive & ~died & terminated).any():
        yield f"{name}/died: the episode terminated, but an agent goes on"
    if (goes_on[:-1] & ~alive[1:]).any():
        yield f"{name}/alive: an agent left without {name}/died"
    if not alive.all():
        for field in ("rewards", "observations"):
            if tensors[f"{name}/{field}"][~alive].any():
                yield f"{name}/{field}: not 0 for an agent that is not alive"
