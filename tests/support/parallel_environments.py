"""Environments of several agents of a user's own, and policies for them."""

from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment, EnvironmentSpec
from nitro_actor.make_env import make_env
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer

Agents = dict[str, Any]


class Arena(ParallelEnv[str, Any, Any]):
    """Hunters and a runner, scripted. Resumable by the documented hook.

    The clock says who plays: hunter_1 dies in step 2 and is back from step 4 on. An episode terminates in
    step 6, or is truncated before that in step `cut`. Hunters may take action 0 and the clock's.
    An observation is [clock, the agent's number, what it did last, noise]; a reward is 1 + number + action.
    """

    metadata: dict[str, Any] = {"name": "arena"}  # noqa: RUF012 - as PettingZoo has it
    hunters = ("hunter_0", "hunter_1")

    def __init__(self, cut: int = 0) -> None:
        self.possible_agents = [*self.hunters, "runner_0"]
        self.agents: list[str] = []
        self.np_random = np.random.default_rng(0)
        self._cut = cut
        self._clock = 0
        self._did = np.zeros(3)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        seen = spaces.Box(-np.inf, np.inf, (4,), np.float64)
        masked = spaces.Dict({"observation": seen, "action_mask": spaces.MultiBinary(4)})
        return masked if agent in self.hunters else spaces.Box(-np.inf, np.inf, (2, 2), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(4, start=1) if agent in self.hunters else spaces.Box(-1, 1, (2,), np.float64)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Agents, Agents]:  # noqa: ARG002
        if seed is not None:
            self.np_random = np.random.Generator(np.random.PCG64(seed))
        self.agents = list(self.possible_agents)
        self._clock = 0
        self._did[:] = 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: Agents) -> tuple[Agents, Agents, Agents, Agents, Agents]:
        acted = list(self.agents)
        assert list(actions) == acted
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), (agent, action)
            self._did[self._number(agent)] = float(np.sum(action))
        rewards = {agent: 1 + self._number(agent) + float(np.sum(actions[agent])) for agent in acted}
        self._clock += 1
        died = {agent: self._clock == 6 or (agent == "hunter_1" and self._clock == 2) for agent in acted}
        cut = dict.fromkeys(acted, self._clock == self._cut)
        self.agents = [agent for agent in acted if not died[agent] and not cut[agent]]
        if self._clock == 4 and self._clock != self._cut:
            self.agents = [*self.agents, "hunter_1"]
        return self._seen(acted), rewards, died, cut, {agent: {} for agent in acted}

    def state(self) -> np.ndarray:
        return np.array([self._clock, *self._did], np.float32)

    def get_state(self) -> dict[str, np.ndarray]:
        return {"clock": np.array(self._clock), "did": self._did.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._clock, self._did = int(state["clock"]), state["did"].copy()

    def _number(self, agent: str) -> int:
        return self.possible_agents.index(agent)

    def _seen(self, leaving: Any = ()) -> Agents:
        seen: Agents = {}
        for agent in dict.fromkeys([*self.agents, *leaving]):
            number = self._number(agent)
            noise = self.np_random.normal()
            row = np.array([self._clock, number, self._did[number], noise])
            seen[agent] = row.reshape(2, 2)
            if agent in self.hunters:
                mask = np.zeros(4, np.int8)
                mask[[0, self._clock % 4]] = 1
                seen[agent] = {"observation": row, "action_mask": mask}
        return seen


class Pair(ParallelEnv[str, Any, Any]):
    """Two agents that do nothing; after 5 steps all are truncated. Tests break it in one way each."""

    metadata: dict[str, Any] = {"name": "pair"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, how: str = "") -> None:
        self.possible_agents = ["a_0", "a_1"]
        self.agents: list[str] = []
        self.how = how
        self.episodes = 0
        self.clock = 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        width = 3 + (self.how == "spaces" and self.episodes > 2 and agent == "a_1")
        return spaces.Box(-1, 1, (width,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Agents, Agents]:  # noqa: ARG002
        self.episodes += 1
        self.clock = 0
        if self.how == "size" and self.episodes > 2:
            self.possible_agents = ["a_0", "a_1", "a_2"]
        self.agents = self.possible_agents[: 1 if self.how in ("idle", "joins") else 2]
        return self._seen(), self._infos()

    def step(self, actions: Agents) -> tuple[Agents, ...]:
        self.clock += 1
        acted, late = list(actions), self.clock == 3
        if late and self.how == "raise":
            raise ZeroDivisionError("the wheel came off")
        rewards = dict.fromkeys(acted, 1.0)
        if late and self.how == "reward":
            rewards["a_1"] = np.nan
        died, cut = dict.fromkeys(acted, False), dict.fromkeys(acted, self.clock == 5)
        if late and self.how == "left":
            self.agents = ["a_0"]
        if late and self.how == "alone":
            cut["a_1"] = True
        if late and self.how == "joins":
            self.agents = ["a_0", "a_1"]
        if late and self.how == "stranger":
            self.agents = ["a_0", "a_1", "b"]
        if self.clock == 5:
            self.agents = []
        if late and self.how == "silent":
            del rewards["a_0"]
        return self._seen(acted), rewards, died, cut, self._infos()

    def _seen(self, leaving: Any = ()) -> Agents:
        seen = {agent: np.zeros(3, np.float32) for agent in [*self.agents, *leaving]}
        if self.clock == 3 and self.how == "observation":
            seen["a_1"] = np.full(3, np.nan, np.float32)
        if self.clock == 3 and self.how == "shape":
            seen["a_1"] = np.zeros(4, np.float32)
        return seen

    def _infos(self) -> Agents:
        if self.how == "joins" or (self.clock == 3 and self.how == "unannounced"):
            return {agent: {"action_mask": [False, True]} for agent in self.agents}
        if self.how not in ("forbidden", "forgotten"):
            return {}
        if self.clock == 3 and self.how == "forgotten":
            return {}
        return {agent: {"action_mask": [self.clock != 3, self.clock != 3]} for agent in self.possible_agents}


class Panel(Pair):
    """Each agent sets the dials that it sees, which do not begin at 0, in each of 5 steps. A step pays the
    share of its numbers that are right: at best an agent has 5, and a random one 25/12. With masks only the
    first number may have another value than the right one."""

    def __init__(self, kind: str = "MultiDiscrete", *, masked: bool = False) -> None:
        super().__init__("masked" if masked else "")
        self._kind = kind
        self.np_random = np.random.default_rng(0)

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Box(0, 1, (5,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        dials = spaces.MultiDiscrete([3, 2], np.int32, start=[-1, 7])
        return dials if self._kind == "MultiDiscrete" else spaces.MultiBinary(5)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Agents, Agents]:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        return super().reset(seed, options)

    def step(self, actions: Agents) -> tuple[Agents, ...]:
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items()), actions
        right = {agent: self._shown[agent] for agent in actions}
        if self._kind == "MultiDiscrete":
            right = {a: np.array([row[:3].argmax() - 1, row[3:].argmax() + 7]) for a, row in right.items()}
        seen, _, *rest = super().step(actions)
        rewards = {agent: float((actions[agent] == right[agent]).mean()) for agent in actions}
        return seen, rewards, *rest

    def _seen(self, leaving: Any = ()) -> Agents:
        self._shown = {
            agent: np.concatenate([np.eye(n)[self.np_random.integers(n)] for n in (3, 2)]).astype(np.float32)
            for agent in dict.fromkeys([*self.agents, *leaving])
        }
        return dict(self._shown)

    def _infos(self) -> Agents:
        if self.how != "masked":
            return {}
        masks = {}
        for agent, shown in self._shown.items():
            mask = shown == 1 if self._kind == "MultiDiscrete" else np.stack([shown == 0, shown == 1], -1)
            mask[: 3 if self._kind == "MultiDiscrete" else 1] = True
            masks[agent] = {"action_mask": mask.reshape(-1)}
        return masks


class Hands(Pair):
    """Its agents have more actions than a policy can have."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.possible_agents = ["hand_0", "hand_1"]
        self._kind = kind

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Discrete(10**8) if self._kind == "Discrete" else spaces.MultiBinary(10**9)


class Turns(AECEnv[str, Any, Any]):
    """An environment in which agents take turns."""

    possible_agents = ["a", "b"]  # noqa: RUF012 - as PettingZoo has it


class DictSpaces(Pair):
    """Its agents see a dictionary."""

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Dict({"position": spaces.Box(-1, 1, (2,)), "colour": spaces.Discrete(3)})


def several(
    id_: str = "test", count: int = 2, entry_point: str | None = None, *, frame_stack: int = 1, **kwargs: Any
) -> Environment:
    """An environment of several agents, built as an actor does."""
    made = make_env(EnvironmentConfig(id_, count, kwargs, entry_point, frame_stack))
    assert isinstance(made, Environment)
    return made


def arena(count: int = 2, *, frame_stack: int = 1, **kwargs: Any) -> Environment:
    """Copies of Arena."""
    return several("arena", count, "parallel_environments:Arena", frame_stack=frame_stack, **kwargs)


def mlp(
    inputs: int, outputs: int, seed: int, *, log_std: int = 0, normalise: bool = True, **network: Any
) -> PolicyWeights:
    """A policy with random parameters.

    Args:
        inputs: numbers of an observation.
        outputs: of the head.
        log_std: size of the log standard deviation where it is a parameter.
        network: of its description, what is not usual.
    """
    rng = np.random.default_rng(seed)
    described = {"kind": "mlp", "hidden": [8, 8], "activation": "tanh", "head": "categorical", **network}
    widths = [inputs + (described.get("agentIds") or 0), *described["hidden"]]
    layers = {f"layers.{i}": pair for i, pair in enumerate(pairwise(widths))}
    layers["head"] = widths[-1], outputs
    if described.get("dueling"):
        layers["value"] = widths[-1], 1
    tensors: dict[str, np.ndarray] = {}
    for name, (fan_in, fan_out) in layers.items():
        tensors[f"policy.{name}.weight"] = rng.normal(0, 0.5, (fan_out, fan_in)).astype(np.float32)
        tensors[f"policy.{name}.bias"] = rng.normal(0, 0.1, fan_out).astype(np.float32)
    if log_std:
        tensors["policy.log_std"] = np.full(log_std, -0.5, np.float32)
    if normalise:
        tensors["observation.mean"] = rng.normal(0, 0.1, inputs)
        tensors["observation.var"] = rng.uniform(0.5, 2.0, inputs)
    return PolicyWeights(described, tensors, 5.0 if normalise else None)


def container(
    spec: EnvironmentSpec,
    groups: dict[str, list[str]] | None = None,
    *,
    run: str = "test-run",
    **network: Any,
) -> WeightsContainer:
    """Policies that fit the environment: one for each agent, or for each of the groups by its first agent."""
    policies, agents = {}, {}
    groups = groups or {agent: [agent] for agent in spec.agents}
    classes = {agent: one for one in spec.classes for agent in one.agents}
    for seed, (policy, members) in enumerate(groups.items()):
        one = classes[members[0]]
        shape = tuple(one.observation["shape"])
        if one.action["kind"] == "continuous":
            size = one.action["size"]
            made = mlp(int(np.prod(shape)), size, seed, log_std=size, head="gaussian")
        else:
            made = mlp(int(np.prod(shape)), one.action["n"], seed, **network)
        for name in ("observation.mean", "observation.var"):
            if name in made.tensors:
                made.tensors[name] = made.tensors[name].reshape(shape)  # type: ignore[index]
        policies[policy] = made
        agents |= dict.fromkeys(members, policy)
    return WeightsContainer(run, 1, policies, agents)
