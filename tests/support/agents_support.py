"""What the tests of learners of several agents share: classes of agents, teams, and made-up fragments."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from learner_support import job
from nitro_actor.masks import UNAVAILABLE
from nitro_actor.protocol.agents import AgentClass
from nitro_api.algorithms.record import path_of
from nitro_api.algorithms.registry import RECORDS
from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.data.batch import Fragment


def agent_class(
    name: str = "agent",
    agents: int = 3,
    *,
    size: int = 4,
    actions: int = 5,
    continuous: bool = False,
    masked: bool = False,
) -> AgentClass:
    """A class of agents `{name}_0`, `{name}_1`, ... that see vectors of `size`."""
    action: dict[str, Any] = {"kind": "discrete", "n": actions, "masked": masked}
    if continuous:
        action = {"kind": "continuous", "size": actions, "low": [-1.0] * actions, "high": [1.0] * actions}
    observation = {"shape": [size], "dtype": "float32", "frame": [size], "stack": 1}
    return AgentClass(name, tuple(f"{name}_{i}" for i in range(agents)), observation, action, True)


def team(
    *classes: AgentClass,
    algorithm: str,
    preset: str = "tuned",
    agents: Sequence[str] | None = None,
    hidden: Sequence[int] = (16, 16),
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> Team:
    """A team of all agents of the classes, or of `agents`.

    Args:
        classes: in any order; without one, three agents of one class.
        algorithm: its name.
        preset: of its settings.
        agents: those of the team, in the order of the wire.
        hidden: units of the networks' layers.
        settings: changes the preset's values, by their names in a job.
        fields: further fields of `Team`.
    """
    ordered = tuple(sorted(classes or (agent_class(),), key=lambda one: one.name))
    record, prefix = RECORDS[algorithm], path_of("", "hyperparameters")
    values = {
        path.removeprefix(prefix): value
        for path, value in record.presets[preset].usual.items()
        if path.startswith(prefix)
    }
    network = Network(type="mlp", hidden_sizes=list(hidden), activation="tanh", log_std="state")
    defaults: dict[str, Any] = {
        "state_size": None,
        "network": network,
        "seed": 0,
        "rounds": 100,
        "environment": job().spec.environment,
    }
    return Team(
        agents=tuple(agents or [agent for one in ordered for agent in one.agents]),
        classes=ordered,
        algorithm=algorithm,
        settings=record.hyperparameters.model_validate(values | (settings or {})),
        **(defaults | fields),
    )


def agents_fragment(
    *classes: AgentClass,
    slot: int = 0,
    length: int = 12,
    envs: int = 2,
    ends: float = 0.1,
    deaths: float = 0.0,
    returns: float = 0.0,
    state_size: int | None = None,
    resumed: bool = False,
    seed: int = 0,
) -> Fragment:
    """A made-up fragment of agents that act at random.

    Args:
        classes: those of the environment; without one, three agents of one class.
        slot: the fragment's.
        length: L.
        envs: E.
        ends: the probability that a step terminates its episode, and that it truncates it.
        deaths: the probability that an agent dies in a step.
        returns: the probability that a dead agent is alive again after a step.
        state_size: S of a global state of the environment's own; None for none.
        resumed: the fragment's.
        seed: of everything in it, with the slot.
    """
    rng = np.random.default_rng([seed, slot])
    ordered = sorted(classes or (agent_class(),), key=lambda one: one.name)
    terminated = rng.random((length, envs)) < ends
    truncated = (rng.random((length, envs)) < ends) & ~terminated
    episodes = int((terminated | truncated).sum())
    finals = int(truncated.sum())
    tensors = {
        "terminated": terminated,
        "truncated": truncated,
        "episode_returns": rng.standard_normal((episodes, sum(len(one.agents) for one in ordered))),
        "episode_lengths": np.full(episodes, length),
    }
    if state_size is not None:
        shapes = {"": (length, envs), "last_": (envs,), "final_": (finals,)}
        tensors |= {
            f"{prefix}global_state": rng.standard_normal((*shape, state_size), np.float32)
            for prefix, shape in shapes.items()
        }
    by_class = {}
    for one in ordered:
        alive, died = _lives(rng, terminated, truncated, len(one.agents), deaths, returns)
        by_class[one.name] = {"alive": alive, "died": died} | _played(rng, one, alive, finals)
    return Fragment({"slot": slot, "resumed": resumed}, tensors, by_class)


def _lives(
    rng: np.random.Generator,
    terminated: np.ndarray,
    truncated: np.ndarray,
    agents: int,
    deaths: float,
    returns: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Who acts in each step, and who dies in it, bool [L, E, agents]."""
    shape = (*terminated.shape, agents)
    alive, died = np.ones(shape, bool), np.zeros(shape, bool)
    for t in range(len(terminated)):
        if t > 0:
            back = rng.random(shape[1:]) < returns
            begins = (terminated | truncated)[t - 1, :, None]
            alive[t] = begins | (alive[t - 1] & ~died[t - 1]) | (~alive[t - 1] & back)
        died[t] = alive[t] & ((rng.random(shape[1:]) < deaths) | terminated[t, :, None])
    return alive, died


def _played(
    rng: np.random.Generator, one: AgentClass, alive: np.ndarray, finals: int
) -> dict[str, np.ndarray]:
    """What the agents of a class saw, did and got."""
    length, envs, agents = alive.shape
    size, action = one.observation["shape"][0], one.action

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    fields = {
        "observations": normal(length, envs, agents, size) * alive[..., None],
        "last_observations": normal(envs, agents, size),
        "final_observations": normal(finals, agents, size),
        "rewards": normal(length, envs, agents) * alive,
    }
    if action["kind"] == "continuous":
        mean = 0.1 * normal(*alive.shape, action["size"])
        log_std = -0.5 + 0.1 * normal(*alive.shape, action["size"])
        noise = normal(*alive.shape, action["size"])
        log_probs = -0.5 * noise**2 - log_std - np.float32(0.5 * np.log(2 * np.pi))
        return fields | {
            "actions": mean + np.exp(log_std) * noise,
            "distribution": np.concatenate([mean, log_std], -1),
            "log_probs": log_probs.sum(-1),
        }
    logits = normal(*alive.shape, action["n"])
    if action.get("masked"):
        for prefix, shape in {"": alive.shape, "last_": (envs, agents), "final_": (finals, agents)}.items():
            available = rng.random((*shape, action["n"])) < 0.7
            available[..., 0] = True
            fields[f"{prefix}available"] = available
        logits = np.where(fields["available"], logits, UNAVAILABLE)
    actions = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    each = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    log_probs = np.take_along_axis(each, actions[..., None], -1)[..., 0]
    return fields | {"actions": actions, "distribution": logits, "log_probs": log_probs.astype(np.float32)}
